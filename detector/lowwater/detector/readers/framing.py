"""How protobuf messages follow one another in a file, told from the first bytes; and what is left of one cut off."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator

from lowwater.detector.readers.values import MAX_VALUE_BYTES

__all__ = ["Framing", "count_nested", "framing_of", "messages", "salvage"]

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_GROUP_TAG = 0x0A
"""Field 1 of an export request, its resource groups; requests hold nothing else."""
_GROUP_TAGS = frozenset((0x0A, 0x12, 0x1A))
"""Fields of a resource group: resource, scopes, schema URL."""
_FIXED32_BYTES = 4
_VARINT = 0
_LENGTH_DELIMITED = 2
_FIXED_BYTES = {1: 8, 5: 4}
"""Bytes of the wire types of fixed size."""


class Framing(enum.Enum):
    """How messages are told apart."""

    SINGLE = "single"
    """One request; it is read group by group, each as a request of its own."""
    FIXED32 = "fixed32"
    """A 4-byte big-endian length before each."""
    VARINT = "varint"
    """A varint length before each."""


def framing_of(head: bytes) -> Framing | None:
    """The framing of a file of export requests by its first bytes; None if it holds no such thing."""
    if _starts_group(head, 0):
        return Framing.SINGLE
    length = int.from_bytes(head[:_FIXED32_BYTES], "big")
    if 0 < length <= MAX_VALUE_BYTES and _starts_payload(head, _FIXED32_BYTES, length):
        return Framing.FIXED32
    varint = _varint(head, 0)
    if varint is not None and 0 < varint[0] <= MAX_VALUE_BYTES and _starts_payload(head, varint[1], varint[0]):
        return Framing.VARINT
    return None


def _starts_payload(head: bytes, place: int, length: int) -> bool:
    if head.startswith((_ZSTD_MAGIC, b'{"resource'), place):
        return True
    return _starts_group(head, place, length)


def _starts_group(head: bytes, place: int, length: int | None = None) -> bool:
    """Whether an export request of ``length`` bytes may start here."""
    if len(head) <= place or head[place] != _GROUP_TAG:
        return False
    group = _varint(head, place + 1)
    if group is None or (length is not None and group[1] - place + group[0] > length):
        return False
    size, inner = group
    if size == 0 or inner >= len(head) or head[inner] not in _GROUP_TAGS:
        return False
    field = _varint(head, inner + 1)
    return field is not None and field[1] - inner + field[0] <= size


def _varint(data: bytes, place: int) -> tuple[int, int] | None:
    """(value, place after it), or None if it is cut off or longer than 64 bits."""
    value = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    return None


def messages(chunks: Iterator[bytes], note: Callable[[str], None]) -> Iterator[tuple[bytes, bool]]:
    """Yield (message, whether it is complete); streams, holding one message.

    Args:
        chunks: the file.
        note: called with the reason when the rest cannot be told apart any more.
    """
    buffer = _Buffer(chunks)
    framing = framing_of(buffer.peek(64))
    if framing is None:
        if buffer.peek(1):
            note("the length of the first record makes no sense")
        return
    while buffer.peek(1):
        header, length = _next_length(buffer, framing)
        if length is None or length > MAX_VALUE_BYTES:
            note("the length of the next record makes no sense: the rest of the file is not read")
            return
        message = buffer.take(header + length)
        complete = len(message) == header + length
        yield (message if framing is Framing.SINGLE else message[header:]), complete


def _next_length(buffer: _Buffer, framing: Framing) -> tuple[int, int | None]:
    """(bytes before the message, its length or None if that makes no sense)."""
    head = buffer.peek(11)
    if framing is Framing.FIXED32:
        return _FIXED32_BYTES, int.from_bytes(head[:_FIXED32_BYTES], "big")
    tag = 1 if framing is Framing.SINGLE else 0
    if tag and head[0] != _GROUP_TAG:
        return 0, None
    found = _varint(head, tag)
    return (0, None) if found is None else (found[1], found[0])


class _Buffer:
    """Bytes taken from chunks in pieces of any size."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._data = b""
        self._place = 0

    def peek(self, size: int) -> bytes:
        self._fill(size)
        return self._data[self._place : self._place + size]

    def take(self, size: int) -> bytes:
        self._fill(size)
        piece = self._data[self._place : self._place + size]
        self._place += len(piece)
        return piece

    def _fill(self, size: int) -> None:
        missing = size - (len(self._data) - self._place)
        if missing <= 0:
            return
        parts = [self._data[self._place :]]
        for chunk in self._chunks:
            parts.append(chunk)
            missing -= len(chunk)
            if missing <= 0:
                break
        self._data = b"".join(parts)
        self._place = 0


def salvage(data: bytes, depth: int = 2) -> bytes:
    """The complete fields of an export request whose end is missing.

    Of the field that is cut off, its own complete fields are kept, down to the scope: so the complete spans survive.

    Args:
        data: the first part of a serialised request.
        depth: how many levels of nesting to follow into the cut.
    """
    place = 0
    while place < len(data):
        field = _field(data, place)
        if field is None:
            return data[:place]
        tag_end, body, end = field
        if end > len(data):
            if depth == 0 or body == tag_end:
                return data[:place]
            kept = salvage(data[body:], depth - 1)
            return data[:tag_end] + _encoded(len(kept)) + kept
        place = end
    return data


def count_nested(data: bytes, path: tuple[int, ...], limit: int, place: int = 0, end: int | None = None) -> int:
    """How many messages there are at a path of field numbers, by their lengths alone; counting stops beyond the limit.

    What is malformed ends the count of the message that holds it: refusing it is the parser's part.
    """
    end = len(data) if end is None else end
    tag = path[0] << 3 | _LENGTH_DELIMITED
    count = 0
    while place < end and count <= limit:
        field = _field(data, place)
        if field is None or field[2] > end:
            break
        if data[place] == tag:
            inner = len(path) > 1
            count += count_nested(data, path[1:], limit - count, field[1], field[2]) if inner else 1
        place = field[2]
    return count


def _field(data: bytes, place: int) -> tuple[int, int, int] | None:
    """(end of the tag, start of the body, end) of the field here; None if its header is cut off or no field."""
    tag = _varint(data, place)
    if tag is None:
        return None
    number, start = tag
    kind = number & 7
    if kind == _LENGTH_DELIMITED:
        length = _varint(data, start)
        return None if length is None else (start, length[1], length[1] + length[0])
    if kind == _VARINT:
        value = _varint(data, start)
        return None if value is None else (start, start, value[1])
    size = _FIXED_BYTES.get(kind)
    return None if size is None else (start, start, start + size)


def _encoded(number: int) -> bytes:
    """A number as a varint."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
