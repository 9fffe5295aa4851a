"""The output of ranks: read continuously, passed on line by line, with the last part kept."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from typing import IO

OnLine = Callable[[int, str, str], None]

_KEPT_BYTES = 2**18  # bytes per stream
_CHUNK_BYTES = 2**16


class Output:
    """Reads the stdout and stderr of many ranks.

    ``on_line(rank, "stdout" or "stderr", line)`` is called for each line, without its newline.
    """

    def __init__(self, on_line: OnLine | None = None) -> None:
        self._on_line = on_line
        self._selector = selectors.DefaultSelector()
        self._kept: dict[tuple[int, str], bytearray] = {}
        self._unfinished: dict[tuple[int, str], bytes] = {}

    def close(self) -> None:
        """Read no more."""
        self._selector.close()

    def add(self, rank: int, stream: str, pipe: IO[bytes]) -> None:
        """Read ``pipe`` as one stream of a rank."""
        # A rank that prints half a line must not block the reading of other ranks.
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, selectors.EVENT_READ, (rank, stream))
        self._kept[rank, stream] = bytearray()
        self._unfinished[rank, stream] = b""

    def read(self, seconds: float) -> set[int]:
        """Wait up to ``seconds`` for output and read it.

        Returns the ranks that printed something.
        """
        printed = set()
        for key, _ in self._selector.select(seconds):
            rank, stream = key.data
            chunk = os.read(key.fd, _CHUNK_BYTES)
            if chunk:
                printed.add(rank)
                self._take(rank, stream, chunk)
            else:
                self._selector.unregister(key.fileobj)
        return printed

    def drain(self, within_s: float) -> None:
        """Read the available output without waiting, and pass on unfinished lines."""
        end = time.monotonic() + within_s
        while time.monotonic() < end and self.read(0):
            pass
        for (rank, stream), rest in self._unfinished.items():
            if rest and self._on_line:
                self._on_line(rank, stream, rest.decode(errors="replace"))
        self._unfinished.clear()

    def text(self, rank: int, stream: str) -> str:
        """Return the end of a rank's output on a stream."""
        return self._kept[rank, stream].decode(errors="replace")

    def _take(self, rank: int, stream: str, chunk: bytes) -> None:
        kept = self._kept[rank, stream]
        kept += chunk
        del kept[:-_KEPT_BYTES]
        *lines, rest = (self._unfinished[rank, stream] + chunk).split(b"\n")
        # A rank that prints without ever ending a line must not fill the launcher's memory.
        self._unfinished[rank, stream] = rest[-_KEPT_BYTES:]
        if self._on_line is not None:
            for line in lines:
                self._on_line(rank, stream, line.decode(errors="replace"))
