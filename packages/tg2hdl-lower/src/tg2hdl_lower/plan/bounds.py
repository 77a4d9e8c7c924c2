"""Run-time loop bounds."""

from __future__ import annotations

from collections.abc import Mapping

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.golden.kernel import scalar
from tg2hdl_ir.nodes import IROp, IRValue, IRVariable

__all__ = ["bound_value"]


def bound_value(bound: int | IRValue, variables: Mapping[str, int]) -> int:
    """Number of iterations for given variables.

    Parameters
    ----------
    bound : int or IRValue
        A number, or one known at run time.
    variables : mapping of str to int
        Values of run-time variables by name.

    Raises
    ------
    InputError
        When a variable has no value.
    """
    if isinstance(bound, int):
        return bound
    for variable in _variables(bound):
        if variable.name not in variables:
            raise InputError(
                f"variable {variable.name!r} has no value",
                hint=f"give a value from {variable.low} to {variable.high}",
            )
    return scalar(bound, variables)


def _variables(value: IRValue) -> list[IRVariable]:
    if isinstance(value, IRVariable):
        return [value]
    return [v for s in value.srcs for v in _variables(s)] if isinstance(value, IROp) else []
