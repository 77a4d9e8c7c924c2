"""Inputs and run-time variables of a run, as requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tg2hdl_host import protocol
from tg2hdl_host.border import Border
from tg2hdl_host.description import Description
from tg2hdl_host.errors import UnfitInputError
from tg2hdl_host.protocol import Request

__all__ = ["EncodedRun", "checked_value", "encoded_run"]

_VARIABLES = 0x40
EncodedRun = tuple[list[Request], list[Request]]
"""Requests that write the variables, and the inputs."""


def encoded_run(
    described: Description,
    borders: Mapping[str, Border],
    values: Mapping[str, int],
    inputs: tuple[Any, ...],
    variables: Mapping[str, int],
) -> EncodedRun:
    """Requests that write the variables and the inputs of a run.

    Parameters
    ----------
    described : Description
    borders : mapping of str to Border
        Scales of a quantized model's inputs, by name.
    values : mapping of str to int
        Of variables that the run gives no other.
    inputs : tuple
        Arrays, or a dict of them by name.
    variables : mapping of str to int
        Of this run.

    Raises
    ------
    UnfitInputError
        For an input or a variable that is missing, unknown or does not fit.
    """
    names = described.inputs
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        given = dict(inputs[0])
        variables = {n: given.pop(n) for n in described.variables if n in given} | dict(variables)
        unknown = [name for name in given if name not in names]
        missing = [name for name in names if name not in given]
        if unknown or missing:
            raise UnfitInputError(
                f"{unknown[0]!r} is not an input of the design"
                if unknown
                else f"no array for {missing[0]!r}",
                stage="write inputs",
                hint=f"inputs are {', '.join(names) or 'none'}",
            )
        inputs = tuple(given[name] for name in names)
    if len(inputs) != len(names):
        listed = ", ".join(map(str, names))
        raise UnfitInputError(
            f"{len(inputs)} input{'s' * (len(inputs) != 1)} for a design of {len(names)}",
            stage="write inputs",
            hint=f"pass {listed or 'none'}"
            + (f"; run takes one tuple for each result, such as zip({listed})" if len(names) > 1 else ""),
        )
    found = []
    for name, value in zip(names, inputs, strict=True):
        buffer = described.buffers.get(name)
        if buffer is None:  # no result depends on it
            continue
        array = np.asarray(value)
        if array.dtype.kind == "f" and buffer.dtype.kind in "iu" and name in borders:
            if not np.all(np.isfinite(array)):
                raise UnfitInputError(
                    f"{name!r} has NaN or infinite elements",
                    stage=f"write {name}",
                    hint="give finite values",
                )
            array = borders[name].quantized(array).astype(buffer.dtype)
        if buffer.shape[:1] == (1,) and array.shape == buffer.shape[1:]:
            array = array[None]
        found += protocol.write(buffer.address, buffer.encode(array), f"write {name}")
    return _variable_writes(described, values, variables), found


def _variable_writes(
    described: Description, values: Mapping[str, int], given: Mapping[str, Any]
) -> list[Request]:
    """Requests that write all variables, in their order."""
    values = dict(values) | {name: checked_value(described, name, value) for name, value in given.items()}
    found = []
    for number, name in enumerate(described.variables):
        if name not in values:
            raise UnfitInputError(
                f"variable {name!r} has no value",
                stage=f"write {name}",
                hint=f"pass {name}=..., or connect with the folder that `tg2hdl build` wrote",
            )
        data = (values[name] & 0xFFFFFFFF).to_bytes(4, "little")
        found += protocol.write(_VARIABLES + 4 * number, data, f"write {name}")
    return found


def checked_value(described: Description, name: str, value: Any) -> int:
    """A value that a variable can have.

    Parameters
    ----------
    described : Description
        Of the design.
    name : str
        Of the variable.
    value

    Raises
    ------
    UnfitInputError
        For an unknown variable, and a value that is out of its range.
    """
    variables = described.variables
    if name not in variables:
        raise UnfitInputError(
            f"the design has no variable {name!r}",
            stage=f"write {name}",
            hint=f"its variables are {', '.join(variables)}" if variables else "it has none: leave it out",
        )
    low, high = variables[name]
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_integer or not low <= value <= high:
        raise UnfitInputError(
            f"variable {name!r} cannot be {value!r}", stage=f"write {name}", hint=f"give {low} to {high}"
        )
    return int(value)
