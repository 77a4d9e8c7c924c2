"""Multipliers of wide integers, against Python's."""

from __future__ import annotations

import random

import pytest
from amaranth.sim import Simulator

from tg2hdl_lower.ops.multiplication import Multiplier, pieces_of


def telling(rng: random.Random, width: int) -> int:
    half = 1 << width - 1
    return rng.choice([-half, half - 1, 0, -1, rng.randrange(-half, half), rng.randrange(-half, half)])


@pytest.mark.parametrize("seed", range(24))
def test_low_bits_of_the_product(seed: int) -> None:
    rng = random.Random(seed)
    widths = rng.randint(1, 70), rng.randint(1, 70)
    bits = rng.randint(1, sum(widths))
    pieces = pieces_of(widths[0]), pieces_of(widths[1])
    component = Multiplier(widths, pieces, bits)
    pairs = [(telling(rng, widths[0]), telling(rng, widths[1])) for _ in range(80)]
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    found = []

    async def bench(context) -> None:
        context.set(component.en, 1)
        for a, b in [*pairs, *[(0, 0)] * component.latency]:
            context.set(component.a, a)
            context.set(component.b, b)
            found.append(context.get(component.result))
            await context.tick()

    simulator.add_testbench(bench)
    simulator.run()
    assert [r % (1 << bits) for r in found[component.latency :]] == [a * b % (1 << bits) for a, b in pairs]


@pytest.mark.parametrize(("width", "pieces"), [(1, 1), (18, 1), (19, 2), (35, 2), (36, 3), (64, 4)])
def test_a_piece_fits_a_multiplier(width: int, pieces: int) -> None:
    assert pieces_of(width) == pieces


@pytest.mark.parametrize("wrong", [((0, 8), (1, 1), 8), ((8, 8), (1, 0), 8), ((8, 8), (1, 1), 0)])
def test_sizes_are_positive(wrong) -> None:
    with pytest.raises(ValueError, match=r"^0 is not a positive number of bits or pieces$"):
        Multiplier(*wrong)
