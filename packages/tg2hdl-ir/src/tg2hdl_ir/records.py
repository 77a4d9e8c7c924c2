"""Graphs of dataclasses as JSON: kernels, plans and whatever they are made of.

An object that is used twice is written once, so that nodes that compare by identity are shared as before.  Arithmetic
units and lowerings are written by name and looked up in the registry.  Reading makes objects of the named packages
and of installed plugins' memories only, and runs none of their methods.  A checksum tells a record that was changed
from one that was written.  Whoever writes another checksum writes another record: its fields must have their types.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import ml_dtypes  # noqa: F401  its dtypes by name
import numpy as np

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, OpLowering, resolve
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.typed import check_fields

__all__ = ["OPTIONAL", "PACKAGES", "read_record", "signed", "write_record"]

PACKAGES = ("tg2hdl_ir", "tg2hdl_lower", "tg2hdl_top")
"""Packages whose dataclasses are read back."""

OPTIONAL = MappingProxyType({"optional": True})
"""Metadata of a field that a record leaves out at its default, so that equal records stay equal when it is added."""

_FORMAT = 1
_AGAIN = "compile the model again, or copy the file again"


def write_record(value: object, *, optional: bool = True) -> str:
    """Write a dataclass, or a container of them, as JSON.

    Parameters
    ----------
    value : dataclass, or a container of dataclasses
    optional : bool
        Whether fields that are `OPTIONAL` are written where they are set.

    Raises
    ------
    TypeError
        For a value that is not a dataclass, container, array, named tuple, enum member, number, string or None.
    """
    numbers: dict[int, int] = {}
    objects: list[Any] = []
    kept: list[object] = []  # an id is valid as long as its object lives
    stack = [(found, False) for found in _dataclasses(value)]
    while stack:
        node, ready = stack.pop()
        if id(node) in numbers:
            continue
        if ready:
            numbers[id(node)] = len(objects)
            kept.append(node)
            objects.append(_object(node, numbers, optional))
        else:
            stack.append((node, True))
            inner = () if _is_registered(node) else _values(node, optional).values()
            stack.extend((found, False) for v in inner for found in _dataclasses(v))
    return json.dumps(signed({"format": _FORMAT, "objects": objects, "value": _encode(value, numbers)}))


def signed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with a checksum of its contents: a changed plan would still be hardware, with other results."""
    return record | {"sha256": _checksum(record)}


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([record["objects"], record["value"]]).encode()).hexdigest()


def read_record(text: str | bytes) -> Any:
    """Read a text that `write_record` has written.

    Raises
    ------
    InputError
        For text that is damaged, of another format, or that names other classes than dataclasses of `PACKAGES` and the
        models of `tg2hdl_memory_ports`.
    """
    try:
        record = json.loads(text)
        if record["format"] != _FORMAT:
            raise InputError(
                f"a record of format {record['format']!r}, expected {_FORMAT}",
                hint="write it again with this version, or read it with the version that wrote it",
            )
        if record["sha256"] != _checksum(record):
            raise InputError(
                "a record that was changed or damaged: its checksum is wrong",
                hint=_AGAIN,
            )
        objects: list[Any] = []
        for entry in record["objects"]:
            objects.append(_made(entry, objects))
        return _decode(record["value"], objects)
    except InputError:
        raise
    except (Exception, RecursionError) as error:  # a class may refuse in any way
        raise InputError(
            f"a record that cannot be read: {type(error).__name__}: {error}", hint=_AGAIN
        ) from error


def _is_registered(value: object) -> bool:
    return isinstance(value, ArithmeticUnit | OpLowering)


def _dataclasses(value: object) -> Iterator[Any]:
    """Dataclasses in a value, not those in their fields."""
    if is_dataclass(value) and not isinstance(value, type):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _dataclasses(pair)
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from _dataclasses(item)


def _values(node: Any, optional: bool) -> dict[str, Any]:
    """The fields that a record has."""
    found = {f.name: getattr(node, f.name) for f in fields(node)}
    return {
        f.name: found[f.name]
        for f in fields(node)
        if not f.metadata.get("optional") or (optional and found[f.name] != f.default)
    }


def _object(node: Any, numbers: dict[int, int], optional: bool) -> Any:
    kind = f"{type(node).__module__}:{type(node).__qualname__}"
    if _is_registered(node):
        return [kind, node.name]
    return [kind, {name: _encode(value, numbers) for name, value in _values(node, optional).items()}]


def _encode(value: object, numbers: dict[int, int]) -> Any:
    if id(value) in numbers:
        return {"object": numbers[id(value)]}
    if isinstance(value, Enum):
        return {"enum": [f"{type(value).__module__}:{type(value).__qualname__}", value.name]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        text = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [str(value.dtype), list(value.shape), text]}
    if isinstance(value, dict):
        return {"dict": [[_encode(k, numbers), _encode(v, numbers)] for k, v in value.items()]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        return {"named": [name, [_encode(item, numbers) for item in value]]}
    for name, kind in (("tuple", tuple), ("list", list), ("frozenset", frozenset), ("set", set)):
        if isinstance(value, kind):
            items = [_encode(item, numbers) for item in value]
            # Equal sets give equal records, whatever their order in memory.
            return {name: sorted(items, key=json.dumps) if kind in (set, frozenset) else items}
    raise TypeError(
        f"{value!r} of type {type(value).__name__} cannot be written: records have dataclasses, enumerations, "
        "containers, arrays, numbers and text"
    )


def _class(name: str, test: Callable[[Any], bool]) -> Any:
    module, _, qualified = name.partition(":")
    found: Any = _memory_models().get(name) if module.split(".")[0] not in PACKAGES else None
    if found is not None and test(found):
        return found
    if module.split(".")[0] not in PACKAGES or not all(part.isidentifier() for part in qualified.split(".")):
        raise ValueError(f"class {name!r} is not of {', '.join(PACKAGES)}")
    found = importlib.import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    if not (isinstance(found, type) and test(found)):
        raise ValueError(f"{name!r} is not a class of records")
    return found


def _memory_models() -> dict[str, type]:
    """Memories outside the chip that plugins bring, by the names of their classes."""
    made = (type(resolve(port.model)()) for port in registry().memory_ports())
    return {f"{cls.__module__}:{cls.__qualname__}": cls for cls in made}


def _made(entry: list[Any], objects: list[Any]) -> Any:
    kind, content = entry
    cls = _class(kind, is_dataclass)
    if issubclass(cls, ArithmeticUnit | OpLowering):
        known = registry().units() if issubclass(cls, ArithmeticUnit) else registry().lowerings()
        for descriptor in known:
            if descriptor.name == content:
                return descriptor
        raise ValueError(f"no {cls.__name__} is named {content!r}")
    names = {f.name for f in fields(cls)}
    content = {f.name: f.default for f in fields(cls) if f.metadata.get("optional")} | content
    if set(content) != names:
        raise ValueError(f"{kind} has the fields {sorted(names)}, not {sorted(content)}")
    made = object.__new__(cls)
    for name, value in content.items():
        object.__setattr__(made, name, _decode(value, objects))
    check_fields(made)
    return made


def _decode(value: Any, objects: list[Any]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "object":
            return objects[content]
        case "enum":
            return _class(content[0], lambda cls: issubclass(cls, Enum))[content[1]]
        case "named":
            name, items = content
            cls = _class(name, lambda cls: issubclass(cls, tuple) and hasattr(cls, "_fields"))
            made = cls(*(_decode(item, objects) for item in items))
            check_fields(made)
            return made
        case "array":
            dtype, shape, text = content
            data = np.frombuffer(base64.b64decode(text), np.dtype(dtype))
            return data.reshape(shape).copy()
        case "dict":
            return {_decode(k, objects): _decode(v, objects) for k, v in content}
    container = {"tuple": tuple, "list": list, "frozenset": frozenset, "set": set}[kind]
    return container(_decode(item, objects) for item in content)
