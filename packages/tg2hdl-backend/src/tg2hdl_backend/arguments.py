"""Arguments of a model by name: arrays from a dict or an ``.npz`` file, and sizes of dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tg2hdl_ir import InputError

__all__ = ["MissingSizes", "in_input_order"]


class MissingSizes(InputError):
    """Symbolic dimensions without a size.

    Attributes
    ----------
    dims : tuple of str
        Names under which each of them can be given a size.
    first : str
        The one among them that ``batch`` gives a size to; empty without one.
    """

    dims: tuple[str, ...] = ()
    first: str = ""


def in_input_order(given: Mapping[str, Any], names: Sequence[str], source: str) -> tuple[Any, ...]:
    """Arrays in the order of a model's inputs.

    Parameters
    ----------
    given : mapping of str to array
        By the names of the inputs; or ``arr_0, arr_1, ...`` in their order, the names that `numpy.savez` gives arrays
        without one.
    names : sequence of str
        Of the model's inputs, in their order.
    source : str
        The file or argument, for errors.

    Raises
    ------
    InputError
        For a name that is not an input, and for an input without an array.
    """
    numbered = [f"arr_{n}" for n in range(len(names))]
    if set(given) == set(numbered) and set(given) != set(names):
        return tuple(given[name] for name in numbered)
    known = ", ".join(names) or "none"
    unknown = [str(name) for name in given if name not in names]
    missing = [name for name in names if name not in given]
    if unknown or missing:
        message = (
            f"{source}: {unknown[0]!r} is not an input of the model"
            if unknown
            else f"{source}: no array for input {missing[0]!r}"
        )
        raise InputError(
            message,
            where=source,
            notes=(f"it has {', '.join(map(str, given)) or 'no arrays'}",),
            hint=f"name the arrays as the inputs: {known}",
        )
    return tuple(given[name] for name in names)
