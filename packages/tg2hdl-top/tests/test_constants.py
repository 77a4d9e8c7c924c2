"""Read-only memories have no more bits than their contents need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tg2hdl_top import CompileOptions, compile_program
from tg2hdl_top.testing import check, layer

RNG = np.random.default_rng(0)


def with_weights(low, high):
    program, w, x = layer()
    values = RNG.integers(low, high + 1, w.shape).astype(w.dtype)
    values.reshape(-1)[:2] = low, high
    buffers = tuple(replace(b, initial=values) if b.name == "w" else b for b in program.buffers)
    return replace(program, buffers=buffers), x


def weight_memory(design):
    return next(m for m in design.buffers if m.name == "w")


@pytest.mark.parametrize(
    ("low", "high", "bits"),
    [(-128, 127, 8), (-7, 7, 4), (-2, 1, 2), (-1, 1, 2), (0, 15, 4), (0, 1, 1), (3, 3, 2)],
)
@pytest.mark.parametrize("multipliers", [1, 4])
def test_elements_are_as_wide_as_the_contents(low, high, bits, multipliers):
    program, x = with_weights(low, high)
    design = check(program, {"x": x}, CompileOptions(multipliers=multipliers))
    memory = weight_memory(design)
    assert memory.dtype.bit_width == bits
    assert memory.word_width == memory.layout.lanes * bits


def test_weights_that_are_written_at_run_time_keep_their_type():
    program, x = with_weights(-1, 1)
    design = check(program, {"x": x}, CompileOptions(multipliers=4, weights="loadable"))
    assert weight_memory(design).dtype.bit_width == 8


@pytest.mark.parametrize(("low", "high", "hard"), [(-1, 1, False), (-2, 1, False), (-7, 7, True)])
def test_products_with_two_bits_take_no_hard_multiplier(low, high, hard):
    program, _ = with_weights(low, high)
    plan = compile_program(program, CompileOptions(multipliers=4)).kernels[0]
    assert bool(plan.products) == hard
