"""tinygrad's schedule of a tensor, as a program: inputs are the buffers that no kernel produces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad import Tensor
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend.tinygrad_adapter.program_builder import BuiltProgram, ProgramBuilder
from tg2hdl_backend.tinygrad_adapter.symbolic import settings, unchanged_tensors
from tg2hdl_ir import InputError
from tg2hdl_ir.turns import compiles

__all__ = ["program_of_schedule", "schedule_of"]


@compiles
def schedule_of(*tensors: Tensor) -> tuple[UOp, dict[str, int]]:
    """Kernels and copies that compute tensors, and the values of bound variables; the tensors stay lazy."""
    with unchanged_tensors(), settings(NO_MEMORY_PLANNER=1):
        return tensors[0].linear_with_vars(*tensors[1:])


def program_of_schedule(schedule: Any) -> tuple[BuiltProgram, dict[str, int]]:
    """Program of a schedule.

    Parameters
    ----------
    schedule : Tensor, list of Tensor, UOp or list of UOp
        A tensor that is not realized, or its schedule by the installed tinygrad: a LINEAR UOp or its calls.

    Raises
    ------
    InputError
        For anything else, or a schedule without kernels.
    """
    calls, var_vals = _calls(schedule)
    builder = ProgramBuilder()
    builder.add_calls(calls)
    if not any(step.uops for step in builder.steps):
        raise InputError(
            "the schedule has no kernel",
            hint="pass a tensor that is computed and not realized yet",
        )
    return builder.build("schedule", (), (), open_inputs=True), var_vals


def _calls(schedule: Any) -> tuple[list[UOp], dict[str, int]]:
    if isinstance(schedule, Tensor):
        schedule = [schedule]
    if isinstance(schedule, tuple) and len(schedule) == 2 and isinstance(schedule[1], dict):
        calls, _ = _calls(schedule[0])
        return calls, dict(schedule[1])
    if isinstance(schedule, UOp) and schedule.op is Ops.LINEAR:
        return list(_flat(schedule.src)), {}
    if isinstance(schedule, list | tuple) and schedule:
        if all(isinstance(t, Tensor) for t in schedule):
            linear, var_vals = schedule_of(*schedule)
            return list(_flat(linear.src)), var_vals
        if all(isinstance(u, UOp) and u.op is Ops.CALL for u in schedule):
            return list(schedule), {}
    raise InputError(
        f"no schedule: {type(schedule).__name__}",
        hint="pass a Tensor, a list of Tensors, or the result of Tensor.linear_with_vars()",
    )


def _flat(calls: Iterable[UOp]) -> Iterable[UOp]:
    for call in calls:
        yield from call.src if call.op is Ops.LINEAR else (call,)
