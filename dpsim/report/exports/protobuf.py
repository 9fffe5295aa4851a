"""Encode fields of messages in the wire format of Protocol Buffers, as needed for traces.

Source: protobuf.dev, "Encoding": a tag (the field's number and wire type), then the value.
"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _LENGTH = 0, 2


def varint(value: int) -> bytes:
    """Encode a number from 0 on: seven bits a byte, lowest first, top bit 0 in the last only."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def number(field: int, value: int) -> bytes:
    """Encode a field of type int64, uint64, bool or an enumeration, from 0 on."""
    return varint(field << 3 | _VARINT) + varint(value)


def message(field: int, content: bytes) -> bytes:
    """Encode a field that is a message, or bytes."""
    return varint(field << 3 | _LENGTH) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """Encode a field of type string."""
    return message(field, value.encode())


def numbers(field: int, values: Iterable[int]) -> bytes:
    """Encode a repeated field of numbers, packed as in proto3; empty without numbers."""
    packed = b"".join(map(varint, values))
    return message(field, packed) if packed else b""


def delimited(content: bytes) -> bytes:
    """Encode a message in a stream of several: its length first."""
    return varint(len(content)) + content
