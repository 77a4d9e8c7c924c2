import numpy as np
import pytest
from tinygrad import Tensor, nn

import tg2hdl

INT = np.zeros((2, 6), np.int8)


def conv(x):
    weight = Tensor(np.ones((3, 1, 3, 3), np.float32))
    return x.conv2d(weight, padding=1)


@pytest.mark.parametrize(
    ("model", "x", "macs"),
    [
        (lambda x: x + 1, INT, 0),
        (lambda x: x * 3, INT, 12),
        (lambda x: x.cast("int32") @ Tensor(np.ones((6, 5), np.int32)), INT, 2 * 6 * 5),
        (nn.Linear(6, 4), np.zeros((2, 6), np.float32), 2 * 6 * 4),
        (conv, np.zeros((1, 1, 8, 8), np.float32), 3 * 64 * 9),
    ],
)
def test_multiplications_of_data_are_counted(model, x, macs):
    if isinstance(model, nn.Linear):
        for name in ("weight", "bias"):
            shape = getattr(model, name).shape
            setattr(model, name, Tensor(np.ones(shape, np.float32)))
    assert sum(k.macs for k in tg2hdl.compile(model, x).kernels) == macs
