"""BF16: products in hardware, rounding of words, and special values through the matrix unit, against numpy."""

import numpy as np
import pytest

from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_tpu import Config, Machine, assemble
from tg2hdl_tpu.hardware.bfloat import BfloatMul
from tg2hdl_tpu.isa import Trap

SPECIAL = np.array(
    [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3e38, -3e38, 2**-126, 2**-127, 2**-149, 2**-133, -(2**-80), 257, 1 / 3],
    np.float32,
)  # fmt: skip


def bits_of(values):
    """FP32 as bits, with the one NaN of the machine."""
    bits = np.asarray(values, np.float32).view(np.uint32).copy()
    bits[np.isnan(values)] = 0x7FC00000
    return bits


def bfloat(values):
    """Round to BF16, to nearest even, by bits; as FP32."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32))


@pytest.mark.parametrize("stages", [1, 3, 10])
def test_products_of_bf16_are_those_of_fp32(stages):
    rng = np.random.default_rng(stages)
    special = (bfloat(SPECIAL).view(np.uint32) >> 16).astype(np.uint16)
    a, b = np.repeat(special, len(special)), np.tile(special, len(special))
    # Any bits; products about the smallest numbers; subnormal numbers times normal ones.
    for low, high in (((0, 1 << 16), (0, 1 << 16)), ((0x1E80, 0x2080),) * 2, ((0, 0x100), (0xB000, 0xC500))):
        a, b = (np.append(v, rng.integers(*r, 500).astype(np.uint16)) for v, r in ((a, low), (b, high)))
    with np.errstate(all="ignore"):
        product = np.multiply(*((v.astype(np.uint32) << 16).view(np.float32) for v in (a, b)))
    assert ((product != 0) & (np.abs(product) < 2.0**-126)).sum() > 200
    expected = bits_of(product)
    with open_simulation(SimulationModel(BfloatMul(stages)), engine="levelized") as sim:
        for n in range(len(a) + stages):
            if n < len(a):
                sim.set("a", int(a[n]))
                sim.set("b", int(b[n]))
            if n >= stages:
                assert sim.get("result") == expected[n - stages], (hex(a[n - stages]), hex(b[n - stages]))
            sim.step()


def test_words_are_rounded_as_ml_dtypes_does():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(9)
    ties = np.uint32(0x3F800000) + np.arange(64, dtype=np.uint32) * np.uint32(0x4000)
    anything = rng.integers(0, 1 << 32, 2000, dtype=np.uint64).astype(np.uint32)
    edges = np.array(
        [0x7F7FFFFF, 0xFF7F8000, 0x7F7F7FFF, 0x7F800001, 0xFFFFFFFF, 0x8000, 0x18000, 0x17FFF], np.uint32
    )
    values = np.concatenate([ties, anything, edges]).view(np.float32)
    with np.errstate(all="ignore"):
        expected = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    machine = Machine(Config(lanes=8, rows=4, columns=4, matrix_format="bf16"))
    machine.load_program(assemble("weights v[0:2], n=2 mxu\nhalt", machine.config).program)
    for start in range(0, len(values), 8):
        machine.vmem[:2, :4] = values[start : start + 8].view(np.int32).reshape(2, 4)
        assert machine.run().trap == Trap.NONE
        np.testing.assert_array_equal(machine.weights[:2].reshape(-1), expected[start : start + 8])


@pytest.mark.parametrize("name", ["bf16", "fp32"])
def test_special_values_through_a_dot_product(name):
    rng, rounded = np.random.default_rng(3), bfloat if name == "bf16" else np.asarray
    machine = Machine(Config(lanes=8, rows=4, columns=4, matrix_format=name))
    text = "weights v[0:2], n=4 mxu\nfadd v[40:2], v[8], v[20], n=12 mxu seg=4\nhalt"
    machine.load_program(assemble(text, machine.config).program)
    for _ in range(200):
        shape = (64, 8)
        values = np.ldexp(rng.normal(size=shape), rng.choice([-70, -64, 0, 0, 12], shape))
        values = np.where(rng.random(shape) < 0.3, rng.integers(-512, 513, shape) / 4, values)
        values = np.where(rng.random(shape) < 0.1, rng.choice(SPECIAL, shape), values).astype(np.float32)
        machine.vmem[:64] = values.view(np.int32)
        assert machine.run().trap == Trap.NONE
        w, a = rounded(values[:4, :4]), rounded(values[4:10].reshape(12, 4))
        with np.errstate(all="ignore"):
            p = [a[:, i, None] * w[i] for i in range(4)]
            total = ((p[0] + p[1]) + (p[2] + p[3])) + values[20:32, :4]
        np.testing.assert_array_equal(machine.vmem[20:32, :4].view(np.uint32), bits_of(total))
