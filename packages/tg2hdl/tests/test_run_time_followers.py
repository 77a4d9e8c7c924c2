"""Kernels with run-time loop bounds beside those that they follow: bits, cycles, and the least starts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tinygrad import Tensor, Variable, dtypes

import tg2hdl
from tg2hdl import Accelerator
from tg2hdl_ir import PluginError
from tg2hdl_top.sequencer.check import check_timeline

# The score of a position is larger than those before it, so that a sum that is read too early is seen.
KEYS = (np.arange(1, 25).reshape(6, 4, 1) * np.ones((6, 4, 8))).astype(np.int8)
X = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int8)


def best_score(x: Tensor, n: Variable) -> Tensor:
    """The largest score of so many positions, each of which is read once it has been computed."""
    keys = Tensor(KEYS)[:n].cast(dtypes.int32)
    return (keys * x.cast(dtypes.int32)).sum(-1).contiguous().max()


def compiled(low: int, high: int) -> Accelerator:
    """Hardware for bounds from low to high."""
    return tg2hdl.compile(best_score, X, Variable("n", low, high).bind(high), multipliers=8)


def expected(n: int) -> int:
    """The result by numpy."""
    return int((KEYS[:n].astype(int) * X.astype(int)).sum(-1).max())


def test_a_reduction_follows_sums_of_a_run_time_number() -> None:
    accelerator = compiled(1, 6)
    design = accelerator.design
    ((kernel, delay),) = design.sequencer.followers
    for n in range(1, 7):
        run = accelerator.simulate(X, n=n)
        assert run.output == expected(n)
        # One after the other: 9 + 8 n.
        assert run.cycles.compute == design.predicted_cycles({"n": n}) == 9 + 4 * n

    early = replace(design.sequencer, followers=((kernel, delay - 1),))
    other = Accelerator(accelerator.captured, replace(design, sequencer=early))
    assert other.simulate(X, n=6).output != expected(6)
    with pytest.raises(PluginError, match=f"kernel 1 .* in cycle {delay - 1}, but"):
        check_timeline(early, design.kernels, design.buffers, design.sharing)


def test_kernels_with_too_many_bounds_run_one_after_the_other() -> None:
    keys = Tensor(np.ones((2048, 8), np.int8))

    def model(x: Tensor, n: Variable) -> Tensor:
        return (keys[:n].cast(dtypes.int32) * x.cast(dtypes.int32)).sum(-1).contiguous().max()

    accelerator = tg2hdl.compile(model, X, Variable("n", 1, 2048).bind(1), multipliers=8)
    assert accelerator.design.sequencer.followers == ()
    assert accelerator.simulate(X, n=5).output == 31
