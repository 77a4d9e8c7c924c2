"""Products without their lowest part, normalization and small tables, on their own."""

import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from tg2hdl_fp32 import Pipeline
from tg2hdl_fp32.carry_save import add_three
from tg2hdl_fp32.leading_product import ROWS, low_bits, multiply_leading
from tg2hdl_fp32.logic_table import select
from tg2hdl_fp32.normalizing import normalize_operand


def evaluate(describe, inputs, outputs, rows):
    """Build `describe` without registers, and return the outputs for every row of inputs."""
    m = Module()
    p = Pipeline(m)
    signals = {name: Signal(width, name=name) for name, width in inputs.items()}
    for name, signal in signals.items():
        p[name] = signal
    describe(p)
    seen = {name: Signal(len(p[name]), name=f"seen_{name}") for name in outputs}
    m.d.comb += [signal.eq(p[name]) for name, signal in seen.items()]
    p.finish()
    results = []

    async def testbench(ctx):
        for row in rows:
            for name, value in zip(inputs, row, strict=True):
                ctx.set(signals[name], value)
            await ctx.delay(1e-9)
            results.append(tuple(ctx.get(seen[name]) for name in outputs))

    sim = Simulator(m)
    sim.add_testbench(testbench)
    sim.run()
    return results


@pytest.mark.parametrize("target", ["generic", "ecp5_model"])
@pytest.mark.parametrize(
    ("width_a", "width_b", "addend"),
    [(7, 12, None), (18, 18, None), (23, 29, 44), (26, 29, None), (27, 29, None), (22, 18, 40)],
)
def test_leading_product(width_a, width_b, addend, target):
    rng = random.Random(width_a * width_b)
    inputs = {"a": width_a, "b": width_b} | ({"c": addend} if addend else {})
    rows = [tuple(rng.getrandbits(width) for width in inputs.values()) for _ in range(40)]
    rows += [tuple((1 << width) - 1 for width in inputs.values())]

    def describe(p):
        multiply_leading(p, "y", p.a, p.b, target=target, addend=p.c if addend else None)

    la, lb = low_bits(width_a), low_bits(width_b)
    size = width_a + width_b - la - lb if addend is None else addend
    for (a, b, *c), (y,) in zip(rows, evaluate(describe, inputs, ["y"], rows), strict=True):
        low_a, low_b = a & ((1 << la) - 1), b & ((1 << lb) - 1)
        expected = (a >> la) * (b >> lb) + ((a >> la) * low_b >> lb) + sum(c)
        expected += (low_a & ((1 << ROWS) - 1)) * (b >> lb) >> la
        expected += (low_a >> ROWS) * (b >> lb) >> max(la - ROWS, 0)
        assert y == expected & ((1 << size) - 1)
        # Close to the whole product: each of the three cuts loses less than a unit, and the low parts less than one.
        assert 0 <= (a * b >> la + lb) + sum(c) - expected <= 3


@pytest.mark.parametrize("width", [2, 3, 4, 5, 8, 9])
def test_normalization(width):
    rows = [(value, hold) for value in range(1 << width) for hold in (0, 1)]

    def describe(p):
        normalize_operand(p, "value", width, hold="keep")

    results = evaluate(describe, {"value": width, "keep": 1}, ["value", "value_places"], rows)
    for (value, hold), (shifted, places) in zip(rows, results, strict=True):
        if hold:
            assert (shifted, places) == (value, 0)
        elif value:
            assert places == width - value.bit_length()
            assert shifted == value << places
        else:
            assert shifted == 0
            assert places == (1 << (width - 1).bit_length()) - 1


def test_select():
    values = [5, 0, 3, 7, 1, 1, 2, 6]

    def describe(p):
        p.value = select(p.index, values)
        p.single = select(p.index[:0], [9])

    rows = [(k,) for k in range(8)]
    assert evaluate(describe, {"index": 3}, ["value", "single"], rows) == [(v, 9) for v in values]


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("subtract", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_add_three(subtract, constant):
    inputs = {"a": 9, "b": 5, "c": 12, "minus_b": 1, "minus_c": 1}
    rng = random.Random(7)
    sizes = (9, 5, 12)
    rows = [(*(rng.getrandbits(size) for size in sizes), *subtract) for _ in range(60)]
    rows += [(*((1 << size) - 1 for size in sizes), *subtract), (0, 0, 0, *subtract)]

    def describe(p):
        flags = subtract if constant else (p.minus_b, p.minus_c)
        p.y = add_three(p, (p.a, p.b, p.c), 11, subtract=flags)

    for (a, b, c, *_), (y,) in zip(rows, evaluate(describe, inputs, ["y"], rows), strict=True):
        assert y == (a + (-b if subtract[0] else b) + (-c if subtract[1] else c)) % (1 << 11)
