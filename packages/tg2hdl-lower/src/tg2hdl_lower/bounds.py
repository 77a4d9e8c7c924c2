"""Run-time loop bounds."""

from __future__ import annotations

from collections.abc import Mapping

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import IRConst, IROp, IRValue, IRVariable

__all__ = ["bound_value"]


def bound_value(bound: int | IRValue, variables: Mapping[str, int]) -> int:
    """Number of iterations for given variables.

    Raises
    ------
    InputError
        When a variable has no value.
    """
    match bound:
        case int():
            return bound
        case IRConst():
            return int(bound.value)
        case IRVariable():
            if bound.name not in variables:
                raise InputError(
                    f"variable {bound.name!r} has no value",
                    hint=f"give a value from {bound.low} to {bound.high}",
                )
            return variables[bound.name]
        case IROp():
            a, *rest = (bound_value(s, variables) for s in bound.srcs)
            match bound.op:
                case "cast":
                    return a
                case "add":
                    return a + rest[0]
                case "sub":
                    return a - rest[0]
                case "mul":
                    return a * rest[0]
                case "div":
                    return a // rest[0]
                case "mod":
                    return a % rest[0]
                case "min":
                    return min(a, rest[0])
                case "max":
                    return max(a, rest[0])
    raise InputError(f"a loop bound cannot be computed from {bound!r}", hint="bind the variable to a number")
