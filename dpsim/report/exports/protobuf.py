"""Fields of messages in the wire format of Protocol Buffers, as far as traces need them.

Source: protobuf.dev, "Encoding": a tag (the field's number and how it is written), then the value.
"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _LENGTH = 0, 2


def varint(value: int) -> bytes:
    """A number from 0 on: seven bits a byte, the lowest first, the top bit on all but the last."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def number(field: int, value: int) -> bytes:
    """A field of type int64, uint64, bool or an enumeration, from 0 on."""
    return varint(field << 3 | _VARINT) + varint(value)


def message(field: int, content: bytes) -> bytes:
    """A field that is a message, or bytes."""
    return varint(field << 3 | _LENGTH) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """A field of type string."""
    return message(field, value.encode())


def numbers(field: int, values: Iterable[int]) -> bytes:
    """A repeated field of numbers, packed as proto3 has it; nothing where there are none."""
    packed = b"".join(map(varint, values))
    return message(field, packed) if packed else b""


def delimited(content: bytes) -> bytes:
    """A message of a stream of several: its length first."""
    return varint(len(content)) + content
