"""Values against the annotations of a dataclass: those of a JSON document, and fields that were read."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["check_fields", "made_of"]

T = TypeVar("T")


def made_of(cls: type[T], values: Any) -> T:
    """An object of a dataclass from a mapping of its fields; lists become tuples where tuples are declared.

    Raises
    ------
    ValueError
        For a field that is missing, unknown, or of another type.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"a {cls.__name__} is a mapping, not {type(values).__name__}")
    hints, known = get_type_hints(cls), fields(cls)  # type: ignore[arg-type]
    names = {field.name for field in known}
    needed = {f.name for f in known if f.default is MISSING and f.default_factory is MISSING}
    if not needed <= set(values) <= names:
        raise ValueError(f"a {cls.__name__} has the fields {sorted(names)}, not {sorted(map(str, values))}")
    return cls(**{name: _converted(value, hints[name], name) for name, value in values.items()})


def _converted(value: Any, hint: Any, name: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for choice in inner:
            try:
                return _converted(value, choice, name)
            except ValueError:
                continue
    elif origin is tuple and isinstance(value, list | tuple):
        return tuple(_converted(item, inner[0], name) for item in value)
    elif hint is type(None) and value is None:
        return None
    elif hint is float and type(value) in (int, float):
        return value
    elif isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return made_of(hint, value)
    elif isinstance(hint, type) and type(value) is hint:
        return value
    raise ValueError(f"{name} is {value!r:.60}")


def check_fields(made: object) -> None:
    """Compare the fields of a dataclass or named tuple, and the items of containers in them, with their annotations.

    Raises
    ------
    ValueError
        For a value of another type.
    """
    for name, hint in _hints(type(made)).items():  # type: ignore[arg-type]
        value = getattr(made, name)
        if not _fits(value, hint):
            raise ValueError(f"{name} of a {type(made).__name__} is {value!r:.60}")


@cache
def _hints(cls: Any) -> dict[str, Any]:
    names = getattr(cls, "_fields", None) or [field.name for field in fields(cls)]
    hints = get_type_hints(cls)
    return {name: hints[name] for name in names}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; of types that are not known here every value is."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, choice) for choice in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[-1:] == (...,):
            return all(_fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        keys, values = inner
        return isinstance(value, origin) and all(
            _fits(k, keys) and _fits(v, values) for k, v in value.items()
        )
    if isinstance(origin, type) and issubclass(origin, Collection) and len(inner) == 1:
        return (
            isinstance(value, origin)
            and not isinstance(value, str)
            and all(_fits(v, inner[0]) for v in value)
        )
    if hint is Any:
        return True
    if hint is float:
        return type(value) in (int, float)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    known = origin or hint
    if not isinstance(known, type) or getattr(known, "_is_protocol", False):
        return True
    return isinstance(value, known)
