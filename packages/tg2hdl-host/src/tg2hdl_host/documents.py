"""Checks of JSON documents, which may come from anybody: each raises ValueError with the value that does not fit."""

from __future__ import annotations

from math import prod
from typing import Any

__all__ = ["check_structure", "flag", "integer", "listed", "shape", "text"]

_MOST = 1 << 32


def integer(value: Any, low: int = 0, high: int = _MOST) -> int:
    """A whole number in a range.

    Parameters
    ----------
    value
        From JSON.
    low : int, default 0
        Both are allowed.
    high : int, optional
        Both are allowed.

    Raises
    ------
    ValueError
        For anything else; bool is not a number.
    """
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{value!r:.40} is not a number from {low} to {high}")
    return value


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r:.40} is not a name")
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.40} is neither true nor false")
    return value


def listed(value: Any, length: int | None = None) -> list[Any]:
    """A list, with `length` elements if that is given.

    Parameters
    ----------
    value
        From JSON.
    length : int, optional
        Elements; None allows any number.

    Raises
    ------
    ValueError
        For anything else.
    """
    if not isinstance(value, list) or length not in (None, len(value)):
        raise ValueError(
            f"{value!r:.40} is not a list" + ("" if length is None else f" of {length} elements")
        )
    return value


def shape(value: Any) -> tuple[int, ...]:
    """Sizes of a tensor."""
    found = tuple(integer(size) for size in listed(value))
    if prod(found) > _MOST:
        raise ValueError(f"{value!r:.40} are too many elements")
    return found


def check_structure(structure: Any, sizes: list[int], depth: int = 0) -> None:
    """A model's result, see `tg2hdl_host.description.restored`, for outputs of `sizes` elements.

    Parameters
    ----------
    structure
        From JSON.
    sizes : list of int
        Elements of each output.
    depth : int, default 0
        Levels above; 50 are allowed.

    Raises
    ------
    ValueError
        Naming the part that does not fit.
    """
    if not isinstance(structure, dict) or depth > 50:
        raise ValueError(f"{structure!r:.40} is not a structure of results")
    if "output" in structure:
        elements = sizes[integer(structure["output"], 0, len(sizes) - 1)]
        if "shape" in structure and prod(shape(structure["shape"])) != elements:
            raise ValueError(f"the shape {structure['shape']!r:.40} for {elements} elements")
    elif "dict" in structure:
        for pair in listed(structure["dict"]):
            key, inner = listed(pair, 2)
            if not isinstance(key, str | int | float | bool | None):
                raise ValueError(f"{key!r:.40} is not a key")
            check_structure(inner, sizes, depth + 1)
    elif "tuple" in structure or "list" in structure:
        for inner in listed(structure["tuple" if "tuple" in structure else "list"]):
            check_structure(inner, sizes, depth + 1)
    elif "constant" not in structure:
        raise ValueError(f"{structure!r:.40} is not a structure of results")
