import numpy as np
import pytest
from tinygrad import Tensor, dtypes

import tg2hdl
from tg2hdl.netlist_check import check_netlist

pytestmark = pytest.mark.usefixtures("private_cache")


@pytest.fixture(scope="module")
def gemv():
    weight = Tensor(np.random.default_rng(1).integers(-128, 128, (64, 32)).astype(np.int8))
    return tg2hdl.compile(
        lambda x: x.cast(dtypes.int32) @ weight.cast(dtypes.int32),
        np.zeros((1, 64), np.int8),
        multipliers=2,
        name="gemv",
    )


@pytest.mark.parametrize(
    ("target", "dsp"),
    [
        ("ice40-up5k", 2),  # with the registers of the product in each
        pytest.param("ice40-hx8k", 0, marks=pytest.mark.slow),
        pytest.param("ecp5-25k", 2, marks=pytest.mark.slow),
        # In CI an ECP5 is placed, routed and compared in test_synth_command.py.
        pytest.param("ecp5-45k", 2, marks=pytest.mark.slow),
        pytest.param("ecp5-85k", 2, marks=pytest.mark.slow),
    ],
)
def test_int8_gemv_on_each_part(gemv, target, dsp):
    result = gemv.synthesize(target, seeds=1)
    assert result.fmax > (25 if target == "ice40-up5k" else 80)
    assert result.used("dsp") == dsp
    assert result.by_memory["weight"] >= 1
    assert sum(result.by_memory.values()) == result.used("bram")
    x = np.random.default_rng(2).integers(-128, 128, (1, 64)).astype(np.int8)
    assert check_netlist(gemv, result, [(x,)]) == gemv.predicted_cycles
