"""Unpacks what browsers send by gzip, up to a limit of bytes."""

from __future__ import annotations

import zlib

from dpsim.base.errors import DpsimError

_GZIP = b"\x1f\x8b"


def unpacked(name: str, data: bytes, what: str, most: int) -> bytes:
    """The bytes of a file that may be packed by gzip, of which no more than ``most`` are unpacked.

    Raises DpsimError for more, and where it cannot be unpacked: it is to be ``what``.
    """
    if not data.startswith(_GZIP):
        if len(data) > most:
            raise DpsimError(f"{name}: must be at most {most:,} bytes, but got {len(data):,}")
        return data
    # 16 for gzip's header, 15 for the largest window. Unpacked in one go it could be any size.
    unpacking = zlib.decompressobj(wbits=31)
    try:
        text = unpacking.decompress(data, most)
    except zlib.error as error:
        raise DpsimError(f"{name}: must be {what}, but cannot be unpacked: {error}") from None
    if unpacking.unconsumed_tail:
        raise DpsimError(
            f"{name}: must be at most {most:,} bytes when it is unpacked, but has more"
        )
    return text
