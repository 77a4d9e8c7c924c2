"""A recurrent net over time: its steps run on one core, as quickly as on cores of their own."""

import numpy as np
from tinygrad import Tensor

import tg2hdl

FEATURES, HIDDEN, STEPS = 8, 16, 5


def test_steps_whose_products_are_packed_share_a_core():
    rng = np.random.default_rng(0)
    into, back = (rng.integers(-8, 8, (size, HIDDEN)).astype(np.int8) for size in (FEATURES, HIDDEN))
    weights = [Tensor(w).realize() for w in (into, back)]

    def model(x):
        h = Tensor.zeros(1, HIDDEN, dtype="int8")
        for t in range(STEPS):
            sums = x[t : t + 1].cast("int32").dot(weights[0].cast("int32"))
            sums = sums + h.cast("int32").dot(weights[1].cast("int32"))
            h = (sums.clip(-2032, 2032) // 16).cast("int8").contiguous()
        return h

    x = rng.integers(-8, 8, (STEPS, FEATURES)).astype(np.int8)
    shared = tg2hdl.compile(model, x, multipliers=4)
    alone = tg2hdl.compile(model, x, options=tg2hdl.CompileOptions(multipliers=4, share_kernels=False))
    # The state is written in words of the width in which the next step reads it.
    assert shared.design.cores == (0,) + (1,) * (STEPS - 1)
    assert len(set(alone.design.cores)) == STEPS
    assert [k.cycles for k in shared.kernels] == [k.cycles for k in alone.kernels]
    h = np.zeros((1, HIDDEN), int)
    for row in x.astype(int):
        h = np.clip(row @ into.astype(int) + h @ back.astype(int), -2032, 2032) // 16
    result = shared.simulate(x)
    assert np.array_equal(result.output, h)
    assert result.cycles.compute == shared.predicted_cycles
