"""Floating-point units that kernels share: same bits, predicted cycles, fewer units."""

import numpy as np
import pytest
from amaranth.back import rtlil
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bits import same_bits

X = np.random.default_rng(7).normal(size=(3, 5)).astype(np.float32)


def two_divisions(x: Tensor) -> Tensor:
    return (x.exp2() / 3).sum(1).reciprocal().contiguous().exp2().reciprocal()


@pytest.mark.parametrize(
    ("model", "target"),
    [(two_divisions, "generic"), (lambda x: x.softmax(), "ecp5")],
    ids=["divisions", "softmax"],
)
def test_same_bits_with_fewer_units(model, target: str) -> None:
    alone, shared = (
        tg2hdl.compile(model, X, options=tg2hdl.CompileOptions(target=target, share_units=share))
        for share in (False, True)
    )
    run = shared.simulate(X)
    assert same_bits(run.output, alone.golden(X))
    assert run.cycles.compute == shared.predicted_cycles
    # One input register for each unit on a path through a kernel.
    assert alone.predicted_cycles < shared.predicted_cycles < alone.predicted_cycles + 60
    cells = [rtlil.convert(a.top).count("  cell ") for a in (alone, shared)]
    assert cells[1] < cells[0]


def test_a_unit_of_one_kernel_stays_inside() -> None:
    accelerator = tg2hdl.compile(lambda x: x.exp2(), X, options=tg2hdl.CompileOptions(share_units=True))
    assert not accelerator.top.plans[0].shared_units
