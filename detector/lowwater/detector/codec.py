"""States to bytes and back: compact, safe to read, and readable by later versions.

A state is a dataclass made of dataclasses, enums, containers, arrays and river's models. It is written by position;
the schema beside the data (`Codec.schema`) names the fields, so that a later version may add fields (they take their
defaults) and drop fields. Reading constructs nothing but the classes of the schema, plain containers and river's models.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import io
import operator
import pickle
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from lowwater.detector.errors import StateError

__all__ = ["Codec"]

_OURS = ("lowwater.collectors.", "lowwater.detector.", "lowwater.policies.")
_RIVERS = "river."
_CHECK_BYTES = 4
"""A CRC-32 before each state: a bit that the disk turned must not become a number that pages."""

_PLAIN = {
    ("array", "_array_reconstructor"),
    ("array", "array"),
    ("builtins", "bytearray"),
    ("builtins", "complex"),
    ("builtins", "frozenset"),
    ("builtins", "set"),
    ("collections", "OrderedDict"),
    ("collections", "defaultdict"),
    ("collections", "deque"),
    ("copyreg", "_reconstructor"),
    ("builtins", "object"),
}
"""What plain containers are pickled as."""


class Codec:
    """Encodes states, and decodes what any codec with this schema or an earlier one wrote.

    Args:
        schema: as `schema` gave it when the data was written.

    Raises:
        StateError: the schema names a class that this version does not have.
    """

    def __init__(self, schema: Mapping[str, list[str]] | None = None) -> None:
        self._written: list[tuple[str, tuple[str, ...]]] = []
        self._codes: dict[type, int] = {}
        self._values: list[Callable[[Any], tuple[Any, ...]]] = []
        self._makers: list[Callable[..., Any]] = []
        for name, fields in (schema or {}).items():
            self._learn(name, tuple(fields))

    @property
    def schema(self) -> dict[str, list[str]]:
        """Classes written so far and the fields of each, in the order of their codes: keep it beside the data."""
        return {name: list(fields) for name, fields in self._written}

    def encode(self, state: Any) -> bytes:
        """The state as bytes."""
        out = io.BytesIO()
        _Pickler(out, self).dump(state)
        data = out.getvalue()
        return zlib.crc32(data).to_bytes(_CHECK_BYTES, "big") + data

    def decode(self, data: bytes) -> Any:
        """The state of bytes.

        Raises:
            StateError: the bytes are damaged or not a state.
        """
        payload = data[_CHECK_BYTES:]
        if zlib.crc32(payload).to_bytes(_CHECK_BYTES, "big") != data[:_CHECK_BYTES]:
            msg = f"a stored state of {len(data)} bytes is damaged: its checksum does not match"
            raise StateError(msg)
        try:
            return _Unpickler(io.BytesIO(payload), self).load()
        except StateError:
            raise
        except Exception as error:
            msg = f"a stored state of {len(data)} bytes cannot be read: {type(error).__name__}: {error}"
            raise StateError(msg) from error

    # --- classes -----------------------------------------------------------------------------------------------------

    def code_of(self, cls: type) -> int | None:
        """The code of one of our classes, None for others."""
        code = self._codes.get(cls)
        if code is not None:
            return code
        if not cls.__module__.startswith(_OURS):
            return None
        fields = _fields_now(cls)
        # A class whose fields changed since the schema was written gets a code of its own, and its data both.
        name = f"{cls.__module__}:{cls.__qualname__}"
        known = sum(written == name or written.startswith(f"{name}@") for written, _ in self._written)
        return self._learn(f"{name}@{known}" if known else name, fields)

    def values_of(self, code: int, obj: Any) -> tuple[Any, ...]:
        """What is written of an object."""
        return self._values[code](obj)

    def make(self, code: int, *values: Any) -> Any:
        """An object of its written values."""
        return self._makers[code](*values)

    def _learn(self, name: str, fields: tuple[str, ...]) -> int:
        code = len(self._written)
        self._written.append((name, fields))
        cls = _class(name.partition("@")[0])
        self._makers.append(_maker(cls, fields))
        self._values.append(_getter(fields))
        if cls is not None and fields == _fields_now(cls):
            self._codes[cls] = code
        return code


def _fields_now(cls: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    return ("value",) if issubclass(cls, enum.Enum) else ("__dict__",)


def _class(name: str) -> type | None:
    module, _, path = name.partition(":")
    if not module.startswith(_OURS):
        msg = f"the stored state names {name}, which is no class of lowwater"
        raise StateError(msg)
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) else None


def _getter(fields: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not fields:
        return lambda obj: ()
    get = operator.attrgetter(*fields)
    return get if len(fields) > 1 else lambda obj: (get(obj),)


def _maker(cls: type | None, fields: tuple[str, ...]) -> Callable[..., Any]:
    if cls is None:

        def gone(*values: Any) -> Any:
            msg = f"a stored state was written by another version of lowwater: its fields {', '.join(fields)} have no class"
            raise StateError(msg)

        return gone
    if issubclass(cls, enum.Enum):
        return cls
    if fields == ("__dict__",):

        def model(values: dict[str, Any]) -> Any:
            obj = cls.__new__(cls)
            obj.__dict__.update(values)
            return obj

        return model
    return _dataclass_maker(cls, fields)


def _dataclass_maker(cls: Any, fields: tuple[str, ...]) -> Callable[..., Any]:
    now = {field.name: field for field in dataclasses.fields(cls)}
    kept = [(index, name) for index, name in enumerate(fields) if name in now]
    missing = [field for name, field in now.items() if name not in fields]
    new, put = cls.__new__, object.__setattr__

    def dataclass_of(*values: Any) -> Any:
        obj = new(cls)
        for index, name in kept:
            put(obj, name, values[index])
        for field in missing:
            if field.default is not dataclasses.MISSING:
                put(obj, field.name, field.default)
            elif field.default_factory is not dataclasses.MISSING:
                put(obj, field.name, field.default_factory())
            else:
                msg = f"a stored {cls.__qualname__} lacks {field.name}, which this version needs"
                raise StateError(msg)
        return obj

    return dataclass_of


def _make(code: int, *values: Any) -> Any:
    """Stands for `Codec.make` in the bytes."""
    raise NotImplementedError


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, codec: Codec) -> None:
        super().__init__(out, protocol=5)
        self._codec = codec

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) or callable(obj):
            return NotImplemented
        code = self._codec.code_of(type(obj))
        return NotImplemented if code is None else (_make, (code, *self._codec.values_of(code, obj)))


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, codec: Codec) -> None:
        super().__init__(data)
        self._codec = codec

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, "_make"):
            return self._codec.make
        if (module, name) in _PLAIN or (module.startswith(_RIVERS) and _is_model(module, name)):
            return super().find_class(module, name)
        msg = f"a stored state names {module}.{name}, which no state is made of"
        raise StateError(msg)


def _is_model(module: str, name: str) -> bool:
    """River's classes, and the functions by which its compiled ones pickle themselves."""
    found = getattr(importlib.import_module(module), name, None)
    return isinstance(found, type) or name.startswith(("__pyx_unpickle", "_from_", "_rebuild"))
