"""Compressed request bodies, inflated piece by piece and never beyond the limit."""

from __future__ import annotations

import zlib

from lowwater.detector.receivers.refusal import Refusal, Why

__all__ = ["Body"]

_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_PIECE = 1 << 16
_MAX_MEMBERS = 1_000
"""Members of one gzip body. Exporters write one; each costs time even where it holds nothing."""


class Body:
    """A request body as it comes in.

    Args:
        limit_bytes: what it may be, compressed and inflated.
        encoding: ``gzip``, ``deflate``, or empty for none.
    """

    def __init__(self, limit_bytes: int, encoding: str = "") -> None:
        self._limit_bytes = limit_bytes
        self._wbits = {"gzip": _GZIP, "deflate": _ZLIB, "": None}[encoding]
        self._inflator = None if self._wbits is None else zlib.decompressobj(self._wbits)
        self._data = bytearray()
        self._received_bytes = 0
        self._members = 1
        self._ended = self._inflator is None

    @property
    def size_bytes(self) -> int:
        """Memory that it takes by now."""
        return len(self._data)

    def check(self, size_bytes: int) -> None:
        """Refuse a size.

        Raises:
            Refusal: it is beyond the limit.
        """
        if size_bytes > self._limit_bytes:
            raise self._too_large()

    def feed(self, data: bytes) -> None:
        """Take the next piece.

        Raises:
            Refusal: the body is too large, or not compressed as it says.
        """
        self._received_bytes += len(data)
        self.check(self._received_bytes)
        if self._inflator is None:
            self._data += data
            return
        try:
            self._inflate(data)
        except zlib.error:
            raise Refusal(
                Why.MALFORMED, "malformed", "the body cannot be decompressed: it is damaged, or not of its encoding"
            ) from None

    def _inflate(self, data: bytes) -> None:
        # In pieces, because what a member leaves over is copied: of a large body of small members that would never end.
        for start in range(0, len(data), _PIECE):
            self._inflate_piece(data[start : start + _PIECE])
        if self._inflator is not None:
            self._ended = self._inflator.eof

    def _inflate_piece(self, data: bytes) -> None:
        inflator = self._inflator
        while data and inflator is not None:
            if inflator.eof:  # members of gzip follow one another
                self._members += 1
                if self._members > _MAX_MEMBERS:
                    raise Refusal(Why.MALFORMED, "malformed", f"the body has more than {_MAX_MEMBERS:,} gzip members")
                self._inflator = inflator = zlib.decompressobj(self._wbits or _GZIP)
            self._data += inflator.decompress(data, _PIECE)
            if len(self._data) > self._limit_bytes:
                raise self._too_large()
            data = inflator.unused_data if inflator.eof else inflator.unconsumed_tail

    def end(self) -> bytes:
        """The body, whole.

        Raises:
            Refusal: it ends inside its compression, or inflates beyond the limit.
        """
        if not self._ended and self._received_bytes:
            raise Refusal(Why.MALFORMED, "malformed", "the compressed body is cut off")
        return bytes(self._data)

    def _too_large(self) -> Refusal:
        return Refusal(
            Why.TOO_LARGE,
            "too_large",
            f"the request is larger than {self._limit_bytes >> 10} KiB:"
            " let the exporter send smaller batches, or raise serve.max_request_bytes",
        )
