"""Export a schedule for MSCCL's interpreter: thread blocks of steps, as XML or JSON.

A thread block of a GPU sends to one peer and receives from one, in one channel, step after step. A
step names the step of another block that must be done before it; if there are several, all but one
are named by preceding `nop` steps. Types: `s` send, `r` receive, `rrc` receive and add, `rcs` and
`rrcs` the same and send on. Format and limits: microsoft/msccl, Azure/msccl-executor-nccl
(msccl_parser.cc).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dpsim.base.errors import DpsimError
from dpsim.collectives import Schedule

MOST_RANKS = 256
_MOST_STEPS = 256  # of a thread block
_MOST_BLOCKS = 216  # of a GPU
_MOST_PEERS = 32  # to which a GPU sends in a channel
_MOST_COUNT = 64  # chunks of a step; the parser takes up to 71
_MOST_CHANNELS = 32
_ALL_SIZES = 2**63 - 1
# MSCCL's names, and the buffer that holds the whole vector for an in-place operation.
_COLLECTIVES = {
    "all-reduce": ("allreduce", "i"),
    "reduce-scatter": ("reducescatter", "i"),
    "all-gather": ("allgather", "o"),
}
_THEN_SEND = {"r": "rcs", "rrc": "rrcs"}


class _At(NamedTuple):
    """A step of a GPU, by thread block and number."""

    block: int
    step: int


@dataclass(slots=True)
class _Step:
    type: str
    chunk: int = 0
    count: int = 1
    waits_for: _At | None = None
    is_waited_for: bool = False


@dataclass(slots=True)
class _Block:
    """A thread block; a peer of -1 means none."""

    number: int
    send: int
    receive: int
    channel: int
    steps: list[_Step] = field(default_factory=list)


class _Piece(NamedTuple):
    """A part of a transfer in a round, no longer than a step allows."""

    round: int
    channel: int
    source: int
    destination: int
    chunk: int
    length: int
    reduce: bool


class _Chunk:
    """The last step that wrote a chunk of a GPU, and the steps that have read it since."""

    def __init__(self) -> None:
        self.written: _At | None = None
        self.read: list[_At] = []


class _Gpu:
    """The thread blocks of a GPU, filled step by step."""

    def __init__(self, schedule: Schedule, pieces: Iterable[_Piece], rank: int) -> None:
        self.blocks: list[_Block] = []
        self._sends: dict[tuple[int, int], _Block] = {}
        self._receives: dict[tuple[int, int], _Block] = {}
        self._chunks = [_Chunk() for _ in range(schedule.chunks)]
        own = [piece for piece in pieces if rank in (piece.source, piece.destination)]
        self._lay_out(own, rank)
        # Chunks sent in a round are read before those received in it are written.
        for piece in sorted(own, key=lambda piece: (piece.round, piece.source != rank)):
            if piece.source == rank:
                self._send(piece)
            else:
                self._receive(piece)

    def _lay_out(self, own: list[_Piece], rank: int) -> None:
        """Create a block for a channel with one peer each way, so that it can forward; else two."""
        to: dict[int, set[int]] = defaultdict(set)
        of: dict[int, set[int]] = defaultdict(set)
        for piece in own:
            if piece.source == rank:
                to[piece.channel].add(piece.destination)
            else:
                of[piece.channel].add(piece.source)
        for channel in sorted({*to, *of}):
            sends, receives = sorted(to[channel]), sorted(of[channel])
            if len(sends) == len(receives) == 1:
                block = self._block(sends[0], receives[0], channel)
                self._sends[channel, sends[0]] = self._receives[channel, receives[0]] = block
                continue
            for peer in sends:
                self._sends[channel, peer] = self._block(peer, -1, channel)
            for peer in receives:
                self._receives[channel, peer] = self._block(-1, peer, channel)

    def _block(self, send: int, receive: int, channel: int) -> _Block:
        block = _Block(len(self.blocks), send, receive, channel)
        self.blocks.append(block)
        return block

    def _send(self, piece: _Piece) -> None:
        block = self._sends[piece.channel, piece.destination]
        chunks = self._of(piece)
        before = _others(block, (chunk.written for chunk in chunks))
        last = block.steps[-1] if block.steps else None
        # A chunk that has just arrived, whole, is forwarded in the same step.
        if last is not None and not before and _goes_on(last, piece):
            last.type = _THEN_SEND[last.type]
            at = _At(block.number, len(block.steps) - 1)
        else:
            at = self._add(block, _Step("s", piece.chunk, piece.length), before)
        for chunk in chunks:
            chunk.read.append(at)

    def _receive(self, piece: _Piece) -> None:
        block = self._receives[piece.channel, piece.source]
        chunks = self._of(piece)
        # Overwritten only after the steps that wrote it and that read it.
        used = [at for chunk in chunks for at in (chunk.written, *chunk.read)]
        step = _Step("rrc" if piece.reduce else "r", piece.chunk, piece.length)
        at = self._add(block, step, _others(block, used))
        for chunk in chunks:
            chunk.written, chunk.read = at, []

    def _of(self, piece: _Piece) -> list[_Chunk]:
        return self._chunks[piece.chunk : piece.chunk + piece.length]

    def _add(self, block: _Block, step: _Step, before: list[_At]) -> _At:
        """Append ``step`` to the block, after all steps of ``before``."""
        for at in before:
            self.blocks[at.block].steps[at.step].is_waited_for = True
        # A step can wait for one other only; for several, `nop` steps come first.
        for at in before[:-1]:
            block.steps.append(_Step("nop", waits_for=at))
        step.waits_for = before[-1] if before else None
        block.steps.append(step)
        return _At(block.number, len(block.steps) - 1)


def _others(block: _Block, steps: Iterable[_At | None]) -> list[_At]:
    """Return the last of ``steps`` in each other block; those before it are done by then too."""
    last: dict[int, int] = {}
    for at in steps:
        if at is not None and at.block != block.number:
            last[at.block] = max(at.step, last.get(at.block, 0))
    return [_At(*each) for each in sorted(last.items())]


def _goes_on(last: _Step, piece: _Piece) -> bool:
    return last.type in _THEN_SEND and (last.chunk, last.count) == (piece.chunk, piece.length)


def msccl(schedule: Schedule) -> dict[str, Any]:
    """Return MSCCL's form of the schedule: its attributes, ``gpus``, ``tbs`` and ``steps``.

    It is done in place. Raises DpsimError for an operation or a schedule that MSCCL cannot express.
    """
    _check(schedule)
    collective, buffer = _COLLECTIVES[schedule.operation]
    pieces = list(_pieces(schedule))
    gpus = []
    for rank in range(schedule.ranks):
        blocks = _Gpu(schedule, pieces, rank).blocks
        _check_blocks(schedule, blocks)
        inputs, outputs = _chunks_of(schedule)
        tbs = [_block_content(block, buffer) for block in blocks]
        gpus.append(
            {"id": rank, "i_chunks": inputs, "o_chunks": outputs, "s_chunks": 0, "tbs": tbs}
        )
    return {
        "name": f"dpsim-{schedule.operation}-{schedule.algorithm}-{schedule.ranks}",
        "proto": "Simple",
        "nchannels": schedule.channels,
        "nchunksperloop": schedule.chunks,
        "ngpus": schedule.ranks,
        "coll": collective,
        "inplace": 1,
        "outofplace": 0,
        "minBytes": 0,
        "maxBytes": _ALL_SIZES,
        "gpus": gpus,
    }


def msccl_text(schedule: Schedule, path: Path) -> str:
    """Return the schedule as the content of ``path``, which ends in .xml or .json."""
    if path.suffix not in (".xml", ".json"):
        raise DpsimError(f"--msccl: must end in .xml or .json, but got {str(path)!r}")
    content = msccl(schedule)
    if path.suffix == ".json":
        return json.dumps(content, indent=1) + "\n"
    return "\n".join(_xml("algo", content, ("gpu", "tb", "step"))) + "\n"


def _xml(
    name: str, content: dict[str, Any], inner: tuple[str, ...], indent: str = ""
) -> Iterator[str]:
    """Yield an element with its content; ``inner`` names the elements below it."""
    attributes = " ".join(
        f'{key}="{value}"' for key, value in content.items() if not isinstance(value, list)
    )
    # All values are numbers or names of the registry, so nothing needs escaping.
    if not inner:
        yield f"{indent}<{name} {attributes}/>"
        return
    yield f"{indent}<{name} {attributes}>"
    for each in content[f"{inner[0]}s"]:
        yield from _xml(inner[0], each, inner[1:], indent + "  ")
    yield f"{indent}</{name}>"


def _block_content(block: _Block, buffer: str) -> dict[str, Any]:
    steps = []
    for number, step in enumerate(block.steps):
        waits_for = step.waits_for or _At(-1, -1)
        steps.append(
            {
                "s": number,
                "type": step.type,
                "srcbuf": buffer,
                "srcoff": step.chunk,
                "dstbuf": buffer,
                "dstoff": step.chunk,
                "cnt": step.count,
                "depid": waits_for.block,
                "deps": waits_for.step,
                "hasdep": int(step.is_waited_for),
            }
        )
    peers = {"send": block.send, "recv": block.receive}
    return {"id": block.number, **peers, "chan": block.channel, "steps": steps}


def _chunks_of(schedule: Schedule) -> tuple[int, int]:
    """Return the number of chunks of a GPU's input and output."""
    whole, own = schedule.chunks, schedule.chunks // schedule.ranks
    return {
        "all-reduce": (whole, whole),
        "reduce-scatter": (whole, own),
        "all-gather": (own, whole),
    }[schedule.operation]


def _pieces(schedule: Schedule) -> Iterator[_Piece]:
    """Yield all transfers by round; both ends of a channel have theirs in the same order."""
    for number, each in enumerate(schedule.each_round()):
        columns = (
            each.channel,
            each.source,
            each.destination,
            each.chunk,
            each.count,
            each.reduce,
        )
        rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
        for channel, source, destination, first, count, reduce in rows:
            # A step's count is limited; the parts of one transfer follow each other on its channel.
            for chunk in range(first, first + count, _MOST_COUNT):
                length = min(_MOST_COUNT, first + count - chunk)
                yield _Piece(number, channel, source, destination, chunk, length, reduce)


def _check(schedule: Schedule) -> None:
    name = f"{schedule.operation} by {schedule.algorithm}"
    if schedule.operation not in _COLLECTIVES:
        raise DpsimError(
            f"--operation: must be one of {', '.join(_COLLECTIVES)} with --msccl, but got "
            f"{schedule.operation!r}"
        )
    if not 2 <= schedule.ranks <= MOST_RANKS:
        raise DpsimError(f"--msccl: ranks must be from 2 to {MOST_RANKS}, but got {schedule.ranks}")
    if schedule.channels > _MOST_CHANNELS:
        raise DpsimError(
            f"--msccl: {name} must have at most {_MOST_CHANNELS} channels, but has "
            f"{schedule.channels}"
        )


def _check_blocks(schedule: Schedule, blocks: list[_Block]) -> None:
    """Raise DpsimError if a GPU's thread blocks exceed the limits of MSCCL's interpreter."""
    peers = [sum(block.channel == each.channel for block in blocks) for each in blocks]
    steps = max(len(block.steps) for block in blocks)
    for what, number, most in (
        ("steps in a thread block", steps, _MOST_STEPS),
        ("thread blocks in a channel", max(peers), _MOST_PEERS),
        ("thread blocks in a GPU", len(blocks), _MOST_BLOCKS),
    ):
        if number > most:
            raise DpsimError(
                f"--msccl: {schedule.operation} by {schedule.algorithm} of {schedule.ranks} ranks "
                f"must need at most {most} {what}, but needs {number}"
            )
