"""Values of a JSON document against the annotations of a dataclass."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["made_of"]

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
