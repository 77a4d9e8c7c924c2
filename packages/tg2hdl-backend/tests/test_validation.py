"""Validation of compiled programs: no false alarm, and float sums in another order that lose no term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tinygrad import Tensor

from tg2hdl_backend import capture
from tg2hdl_backend.testing import PROGRAMS
from tg2hdl_ir import IROp, IRValue, KernelIR, Tg2hdlError, ValidationError
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_top import CompileOptions, compile_program
from tg2hdl_top.testing import changed_pass

OPTIONS = (
    {"multipliers": 4},
    {"multipliers": 1, "weights": "loadable"},
    {"multipliers": 16, "float_order": "relaxed"},
    {"multipliers": 4, "schedule": "overlap"},
)


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=pytest.mark.slow if n % 8 else ()) for n in range(len(PROGRAMS))]
)
def test_programs_are_right_as_planned(number: int) -> None:
    model, inputs = list(PROGRAMS.values())[number]
    options = CompileOptions(validate="full", **OPTIONS[number // 8 % len(OPTIONS)])
    try:
        design = compile_program(capture(model, *inputs).program, options)
    except ValidationError:
        raise
    except Tg2hdlError as error:
        pytest.skip(error.message)
    assert design.validation.inputs


def with_lost_term(kernel: KernelIR) -> KernelIR:
    """The kernel whose first float addition leaves out its second term."""
    found: list[IROp] = []

    def lost(op: IROp) -> IRValue | None:
        if op.op != "add" or not op.dtype.is_float or found:
            return None
        found.append(op)
        return op.srcs[0]

    return replace(kernel, loop_tree=Rewriter(replace=lost).loop(kernel.loop_tree))


@pytest.mark.parametrize("model", [lambda x: x.sum(), lambda x: x.exp().sum(), lambda x: (x * x).mean()])
@pytest.mark.parametrize("mode", ["auto", "full", "each"])
def test_relaxed_sums_may_be_in_another_order_but_not_lose_a_term(
    model: Callable[[Tensor], Tensor], mode: str
) -> None:
    program = capture(model, np.zeros(64, np.float32)).program
    options = CompileOptions(validate=mode, float_order="relaxed", multipliers=4)
    compile_program(program, options)
    with changed_pass("balance", with_lost_term), pytest.raises(ValidationError) as caught:
        compile_program(program, options)
    assert any("made wrong by pass balance of" in note for note in caught.value.notes)


def test_folded_scales_are_compared_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    weight, scale = (Tensor(rng.standard_normal(shape).astype(np.float32)) for shape in ((8, 3), (3,)))
    program = capture(lambda x: (x @ weight) * scale, np.zeros((4, 8), np.float32)).program
    options = CompileOptions(validate="full", fold_batchnorm=True, multipliers=4)
    assert compile_program(program, options).validation.inputs
    monkeypatch.setattr("tg2hdl_top.compile.fold_scales", lambda program: program)
    assert compile_program(program, replace(options, fold_batchnorm=False)).validation.inputs
    with pytest.raises(ValidationError):
        compile_program(program, options)
