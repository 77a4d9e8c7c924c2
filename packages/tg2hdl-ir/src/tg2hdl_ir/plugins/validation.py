"""Checks of the descriptors that hooks return, by the types of their fields."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.plugins.descriptors import (
    Area,
    ArithmeticUnit,
    BoardDef,
    FamilyDef,
    MemoryFigures,
    OpDef,
    PassDef,
    TargetDef,
)

__all__ = ["find_fault", "find_pass_fault"]

_NAME = re.compile(r"[A-Za-z_][\w.+:/-]*\Z")
_OP = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
_FACTORY = re.compile(r"[^:\s]+:[A-Za-z_][\w.]*\Z")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_factory(value: Any) -> bool:
    return callable(value) or (isinstance(value, str) and _FACTORY.match(value) is not None)


def _is_shape(value: tuple[Any, ...]) -> bool:
    return len(value) == 2 and all(_is_int(v) and v > 0 for v in value)


def _is_tuple(kind: type[Any]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and all(isinstance(v, kind) for v in value)


_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda v: isinstance(v, str), "a string"),
    "int": (_is_int, "an integer"),
    "float": (lambda v: _is_int(v) or (isinstance(v, float) and math.isfinite(v)), "a finite number"),
    "bool": (lambda v: isinstance(v, bool), "True or False"),
    "DType": (lambda v: isinstance(v, DType), "a DType, e.g. DType.FP32"),
    "tuple[str, ...]": (_is_tuple(str), "a tuple of strings"),
    "tuple[int, ...]": (lambda v: _is_tuple(int)(v) and min(v, default=0) >= 0, "a tuple of integers from 0"),
    "tuple[tuple[int, int], ...]": (
        lambda v: _is_tuple(tuple)(v) and all(map(_is_shape, v)),
        "pairs above 0",
    ),
    "tuple[tuple[str, str], ...]": (
        lambda v: _is_tuple(tuple)(v) and all(len(pair) == 2 and _is_tuple(str)(pair) for pair in v),
        "a tuple of pairs of strings",
    ),
    "Area": (lambda v: isinstance(v, Area), "an Area, e.g. Area(lut=100)"),
    "MemoryFigures": (lambda v: isinstance(v, MemoryFigures), "a MemoryFigures"),
    "tuple[DType, ...]": (_is_tuple(DType), "a tuple of DType, e.g. (DType.FP32, DType.FP32)"),
    "tuple[TargetDef, ...]": (_is_tuple(TargetDef), "a tuple of TargetDef"),
    "tuple[BoardDef, ...]": (_is_tuple(BoardDef), "a tuple of BoardDef"),
    "Factory": (_is_factory, 'a callable or "module:attribute"'),
    "Factory | None": (lambda v: v is None or _is_factory(v), 'a callable, "module:attribute" or None'),
}
_REWRITING = ("captured", "canonical", "lanes", "registers")
_PROPOSING = ("captured", "merges", "producers", "forms")
_LEAST = (
    dict.fromkeys(("lut", "ff", "dsp", "bram", "bram_bits", "latency", "product_latency", "fmax"), 0)
    | dict.fromkeys(("arity", "ii", "stage_levels", "read_latency", "first_clock", "since_version"), 1)
    | dict.fromkeys(("lut_bits", "byte_bits", "dual_bits", "packed_bits", "wide_bits"), 0)
    | dict.fromkeys(("lut_words", "block_bits", "block_words", "lut_ports", "block_ports", "large_ports"), 1)
)
"""Smallest values of numbers, by the field's name."""


def find_fault(descriptor: Any, kind: type[Any]) -> tuple[str, str] | None:
    """The fault of an object that a hook for descriptors of `kind` returned, and a hint; None when it fits.

    Parameters
    ----------
    descriptor : object
        Returned by a hook.
    kind : type[Any]
        Class of the descriptors of the hook.
    """
    if not isinstance(descriptor, kind):
        found = f"{descriptor!r:.60} of type {type(descriptor).__name__}"
        return f"returned {found} where {kind.__name__} belongs", f"return a list of {kind.__name__}"
    label = f"{kind.__name__} {descriptor.name!r:.60}"
    if fault := _field_fault(label, descriptor):
        return fault
    if kind is OpDef and not _OP.match(descriptor.name):
        return f"{label} has no name for the printed IR", "use letters, digits, _ and dots: myext.sigmoid"
    if not _NAME.match(descriptor.name):
        return f"{label} has no usable name", "use letters, digits and . _ - + : /"
    if isinstance(descriptor, ArithmeticUnit) and not 1 <= len(descriptor.operands) <= 3:
        return f"{label} has {len(descriptor.operands)} operands", "give one to three"
    if isinstance(descriptor, FamilyDef):
        for part in descriptor.parts:
            if part.family != descriptor.name:
                return f"{label} has a part of the family {part.family!r}", f"give family={descriptor.name!r}"
    return None


def _field_fault(label: str, descriptor: Any) -> tuple[str, str] | None:
    """The first field of another type, or too small; the fields of figures within a descriptor are checked, too."""
    for field in fields(descriptor):
        test, expected = _EXPECTED.get(str(field.type), (None, ""))
        value = getattr(descriptor, field.name)
        if test is not None and not test(value):
            return f"{label} has {field.name}={value!r:.80}", f"give {expected}"
        least = _LEAST.get(field.name)
        if least is not None and value < least:
            return f"{label} has {field.name}={value}", f"give at least {least}"
        if isinstance(value, Area | MemoryFigures) and (
            fault := _field_fault(f"{field.name} of {label}", value)
        ):
            return fault
    return None


def find_pass_fault(definition: PassDef) -> tuple[str, str] | None:
    """The fault of a rewrite of a plugin, and a hint; only built-in ones belong to further stages."""
    label = f"PassDef {definition.name!r:.60}"
    stage, stages = definition.stage, _PROPOSING if definition.proposes else _REWRITING
    if stage not in {*_REWRITING, *_PROPOSING}:
        return f"{label} has stage={stage!r:.80}", f"give one of {', '.join(stages)}"
    if stage not in stages:
        return (
            f"{label} has stage={stage!r} and proposes={definition.proposes}",
            f"give one of {', '.join(stages)}",
        )
    if definition.changes_numbers and definition.place != "captured":
        return f"{label} has stage={definition.place!r} and changes_numbers=True", "leave out one of them"
    if definition.before and definition.after:
        return (
            f"{label} has before={definition.before!r} and after={definition.after!r}",
            "leave out one of them",
        )
    return None
