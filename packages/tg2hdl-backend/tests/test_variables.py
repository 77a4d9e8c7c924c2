"""Run-time variables on simulated hardware: one design for all values, equal to numpy and to the prediction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor, UOp, Variable

from tg2hdl_backend import Runner, capture
from tg2hdl_ir import Tg2hdlError
from tg2hdl_top import compile_program

X = np.random.default_rng(3).integers(-9, 9, (3, 7))
VALUES = (1, 2, 3, 5, 7)

PROGRAMS: dict[str, tuple[Callable[[Tensor, UOp], Tensor], Callable[[Any, int], Any]]] = {
    "rows": (lambda x, n: x[:, :n].sum(1), lambda x, n: x[:, :n].sum(1)),
    "largest": (lambda x, n: x[:, :n].max(1), lambda x, n: x[:, :n].max(1)),
    "halved": (lambda x, n: x[:, : (n + 1) // 2].sum(1), lambda x, n: x[:, : (n + 1) // 2].sum(1)),
    "shifted": (lambda x, n: x[:, : (n + 7) // 4].sum(1), lambda x, n: x[:, : (n + 7) // 4].sum(1)),
    "thirds": (lambda x, n: x[:, : (n + 2) // 3].sum(1), lambda x, n: x[:, : (n + 2) // 3].sum(1)),
    "rest": (lambda x, n: x[:, : n % 3 + 1].sum(1), lambda x, n: x[:, : n % 3 + 1].sum(1)),
    "empty": (lambda x, n: x[:, : n - 1].sum(1), lambda x, n: x[:, : n - 1].sum(1)),
    "product": (lambda x, n: x[:, :n] @ x[:, :n].T, lambda x, n: x[:, :n] @ x[:, :n].T),
    "column": (lambda x, n: x[:, n - 1 : n].sum(1), lambda x, n: x[:, n - 1]),
}


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_design_for_all_values(name, dtype):
    if dtype is np.float32:
        pytest.importorskip("tg2hdl_fp32", reason="adds on hardware")
    program, expected = PROGRAMS[name]
    x = X.astype(dtype)
    captured = capture(program, x, Variable("n", 1, 7).bind(5))
    compiled = compile_program(captured.program)
    with Runner(compiled, "amaranth") as simulation:
        for n in VALUES:
            run = simulation.run({"x": x}, {"n": n})
            np.testing.assert_array_equal(run.outputs[0], np.ravel(expected(x, n)))
            assert run.compute == compiled.predicted_cycles({"n": n})


def test_negative_values():
    x = X.astype(np.int32)
    captured = capture(lambda x, n: x[:, : n + 3].sum(1) + n, x, Variable("n", -2, 4).bind(1))
    compiled = compile_program(captured.program)
    with Runner(compiled, "amaranth") as simulation:
        for n in (-2, -1, 0, 4):
            run = simulation.run({"x": x}, {"n": n})
            np.testing.assert_array_equal(run.outputs[0], x[:, : n + 3].sum(1) + n)
            assert run.compute == compiled.predicted_cycles({"n": n})


def test_a_variable_that_may_be_larger_than_its_buffer_is_refused():
    """As tinygrad's `test_shrink_beyond_buffer_variable`: it reads beyond the buffer without a word."""

    def total(x, n):
        return x[:n].sum()

    x = np.ones(3, np.int32)
    with pytest.raises(Tg2hdlError, match="addresses 0 to 9 of buffer 1, whose depth is 3") as error:
        compile_program(capture(total, x, Variable("n", 1, 10).bind(2)).program)
    assert error.value.hint == "narrow the ranges of the variables: it happens with n = 10"
    compiled = compile_program(capture(total, x, Variable("n", 1, 3).bind(2)).program)
    with Runner(compiled, "amaranth") as simulation:
        assert [int(simulation.run({"x": x}, {"n": n}).outputs[0][0]) for n in (1, 3)] == [1, 3]
