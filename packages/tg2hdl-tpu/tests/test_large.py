"""The machine of 8 x 8 products, 16 lanes and FP32: a product of matrices and a vector program, against numpy."""

import numpy as np
import pytest

from tg2hdl_tpu import Bundle, Config, Region, assemble, run_bundle
from tg2hdl_tpu.hardware.simulate import Hardware

CONFIG = Config.ecp5(rows=8, columns=8, vmem_rows=128, imem_depth=64, xmem_rows=64, float=True)
PROGRAM = """
        loop #2                                 # a1: tile of W; a2: segment of C
        tile  v[4+a1], mxu8
        copy  v[64+a2:2], v[0:2], n=16 mxu8 seg=8
        tile  v[6+a1], mxu8
        add   v[64+a2:2], v[1:2], v[32], n=16 mxu8 seg=8
        set   a1, a1, #1
        set   a2, a2, #1
        end
        fmul  v[100], v[48], v[56], n=4
        fadd  v[104], v[100], #-1.5, n=4
        i2f   v[108], v[32], n=4
        halt
.out c vmem 32 16
.out product vmem 100 4
.out total vmem 104 4
.out converted vmem 108 4
"""


@pytest.mark.slow
def test_products_and_floats_against_numpy():
    rng = np.random.default_rng(0)
    a, w = (rng.integers(-128, 128, (16, 16)).astype(np.int8) for _ in "aw")
    x, y = (rng.standard_normal((4, 16)).astype(np.float32) for _ in "xy")
    # Tiles of W by rows of tiles, each of 8 x 8 bytes.
    tiles = np.ascontiguousarray(w.reshape(2, 8, 2, 8).transpose(0, 2, 1, 3))
    data = tuple(
        Region("vmem", at, np.ascontiguousarray(v).view(np.int32).reshape(-1, 16))
        for at, v in ((0, a), (4, tiles), (48, x), (56, y))
    )
    program = assemble(PROGRAM, CONFIG)
    bundle = Bundle(CONFIG, program.program, data, program.outputs)
    product = a.astype(np.int32) @ w.astype(np.int32)
    expected = {
        "c": product,
        "product": (x * y).view(np.int32),
        "total": (x * y - np.float32(1.5)).view(np.int32),
        "converted": product[:4].astype(np.float32).view(np.int32),
    }
    software = run_bundle(bundle)
    for name, rows in expected.items():
        np.testing.assert_array_equal(software.outputs[name], rows, err_msg=name)
    with Hardware(CONFIG, engine="levelized") as hardware:
        found = hardware.run_bundle(bundle)
    assert found.cycles == software.cycles
    for name, rows in expected.items():
        np.testing.assert_array_equal(found.outputs[name], rows, err_msg=name)
