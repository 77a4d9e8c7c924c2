import random
from fractions import Fraction

import numpy as np
import pytest
from tg2hdl_formats import BLOCK, ELEMENTS, MXDot, MXFromFloat, element_values, from_blocks, to_blocks
from tg2hdl_formats.exact import block_of, dot_value, element_value

from tg2hdl_fp32 import FP32, FloatParameterError, FloatTypeError
from tg2hdl_fp32.testing.simulation import BitSlicedSimulation

NAMES = list(ELEMENTS)


def packed(patterns, width):
    return sum(int(code) << (width * k) for k, code in enumerate(patterns))


def run(core, rows):
    """Results of rows of operands, wider than a machine word, one in every cycle in a lane for each."""
    simulation = BitSlicedSimulation(core, len(rows))
    for column, name in enumerate(core.operands):
        words = [row[column] for row in rows]
        planes = [
            sum((word >> k & 1) << lane for lane, word in enumerate(words))
            for k in range(len(getattr(core, name)))
        ]
        simulation._set_planes(name, planes)
    simulation.tick(core.latency)
    simulation.settle()
    planes = [simulation._nets[int(net)] for net in simulation._top.ports_o["result"]]
    return [sum((plane >> lane & 1) << k for k, plane in enumerate(planes)) for lane in range(len(rows))]


def to_fp32(value):
    if isinstance(value, str):
        return {"nan": FP32.nan, "inf": FP32.infinity, "-inf": FP32.infinity | FP32.sign_mask}[value]
    return FP32.encode(value)


def blocks(element, count, seed=0):
    """Pairs of blocks: of all patterns, of one, that cancel, with few special elements, and scales of every size."""
    rng = random.Random(seed)
    codes = range(1 << element.width)
    finite = [c for c in codes if isinstance(element_value(element.name, c), Fraction)]
    rows = []
    for number in range(count):
        source = codes if number % 8 == 0 else finite
        a, b = ([rng.choice(source) for _ in range(BLOCK)] for _ in range(2))
        if number % 8 == 1:  # a sum that is nearly zero
            negated = [
                -c & 255 if element.name == "INT8" else c ^ 1 << (element.width - 1) for c in a[: BLOCK // 2]
            ]
            a[BLOCK // 2 :], b[BLOCK // 2 :] = negated, b[: BLOCK // 2]
            b[0] = rng.choice(finite)
        if number % 8 == 2:
            a, b = [a[0]] * BLOCK, [b[0]] * BLOCK
        if number % 8 == 3:
            b[0] = rng.choice(codes)
        low, high = [(120, 134), (0, 80), (0, 254), (54, 76), (180, 254)][number % 5]
        scales = [rng.randint(low, high) for _ in range(2)]
        if number % 16 == 15:
            scales[number // 16 % 2] = 255
        rows.append((a, b, *scales))
    return rows


@pytest.mark.parametrize("name", NAMES)
def test_all_elements(name):
    element = ELEMENTS[name]
    for code, value in enumerate(element_values(element)):
        exact = element_value(name, code)
        assert str(value) == exact if isinstance(exact, str) else Fraction(value) == exact


@pytest.mark.parametrize("name", ["E2M1", "INT8"])
def test_dot_product_of_blocks(name):
    element = ELEMENTS[name]
    rows = blocks(element, 48)
    core = MXDot(element, stages=2)
    operands = [(packed(a, element.width), packed(b, element.width), s, t) for a, b, s, t in rows]
    assert run(core, operands) == [to_fp32(dot_value(name, *row)) for row in rows]
    assert core.ii == 1


@pytest.mark.parametrize("name", NAMES)
def test_blocks_in_parts(name):
    """Two blocks after each other in every lane of the simulation, with pauses."""
    element, lanes = ELEMENTS[name], 8
    core = MXDot(element, lanes, stages=3)
    rows = blocks(element, 120)
    halves = rows[::2], rows[1::2]
    simulation = BitSlicedSimulation(core, len(halves[0]))
    rng = random.Random(0)
    results = []
    steps = [(half, k) for half in halves for k in range(0, BLOCK, lanes)]
    for count, (half, k) in enumerate([*steps, *steps[: core.latency]]):
        columns = [[packed(row[side][k : k + lanes], element.width) for row in half] for side in (0, 1)]
        columns += [[row[2] for row in half], [row[3] for row in half], [int(k == 0)] * len(half)]
        while rng.random() < 0.3:  # what comes without `en` is not seen
            simulation.set("en", 0)
            simulation.set("first", 1)
            simulation.tick()
        for port, values in zip(core.operands, columns, strict=True):
            simulation.set(port, np.array(values, np.uint64))
        simulation.set("en", 1)
        if count >= core.latency and (count - core.latency + 1) * lanes % BLOCK == 0:
            results += simulation.get("result").tolist()
        simulation.tick()
    assert results == [to_fp32(dot_value(name, *row)) for half in halves for row in half]
    assert len({result & 0x7F800000 for result in results}) > 16


def numbers(count, seed=1):
    """Blocks of near and far numbers, ties, zeros, subnormal numbers and the largest ones."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, BLOCK)) * np.exp2(rng.integers(-12, 3, (count, BLOCK)))
    x[1::4] = rng.integers(-64, 64, x[1::4].shape) / rng.choice([8, 16, 32])
    x *= np.exp2(rng.integers(-30, 30, (count, 1)).astype(float))
    x = x.astype(np.float32)
    x[0] = 0
    x[1, ::2] = -0.0
    signs = rng.integers(0, 2, (3, BLOCK)) << 31
    x[2], x[5], x[9] = (
        (signs | rng.integers(0, [[1 << 23], [9 << 23], [1 << 18]], (3, BLOCK)))
        .astype(np.uint32)
        .view(np.float32)
    )
    x[3] = np.copysign(np.finfo(np.float32).max, x[3])
    x[4] = np.float32(2) - np.exp2(-rng.integers(1, 23, BLOCK)).astype(np.float32)
    return x


@pytest.mark.parametrize("name", NAMES)
def test_conversion_of_blocks(name):
    element = ELEMENTS[name]
    x = numbers(24)
    block = BLOCK if name == "E2M1" else 8
    x[:, block:] = 0
    patterns, scales = to_blocks(x, element)
    for row, codes, scale in zip(x, patterns, scales[:, 0], strict=True):
        expected, exponent = block_of(name, [Fraction(float(v)) for v in row])
        signs = np.signbit(row) & (row == 0) & (name != "INT8")
        assert scale == exponent
        assert (codes == np.array(expected) | signs << (element.width - 1)).all()
    with_special = np.concatenate([x, x[6:9]])
    with_special[-3:, 5] = np.inf, -np.inf, np.nan
    patterns, scales = to_blocks(with_special, element)
    assert (scales[-3:] == 255).all()
    assert np.isnan(from_blocks(patterns, scales, element)[-3:]).all()
    core = MXFromFloat(element, block, stages=2)
    rows = [(packed(row[:block].view(np.uint32), 32),) for row in with_special]
    expected = [
        packed(codes[:block], element.width) | int(scale) << (block * element.width)
        for codes, scale in zip(patterns, scales[:, 0], strict=True)
    ]
    assert run(core, rows) == expected


@pytest.mark.parametrize("name", NAMES)
def test_blocks_of_elements_are_kept(name):
    element = ELEMENTS[name]
    values = element_values(element)
    values = np.resize(values[np.isfinite(values) & (values != -2)], (8, BLOCK))
    values[:, 0] = element_values(element)[element.largest]
    patterns, scales = to_blocks(np.ldexp(values, 5), element)
    assert (scales == 127 + 5).all()
    assert (from_blocks(patterns, scales, element) == np.ldexp(values, 5)).all()


def test_refusals():
    with pytest.raises(FloatTypeError, match="format must be a Element"):
        MXDot(FP32)
    with pytest.raises(FloatParameterError, match="divisor of 32"):
        MXDot(ELEMENTS["E2M1"], 5)
    with pytest.raises(FloatParameterError, match="no flags"):
        MXDot(flags=True)
