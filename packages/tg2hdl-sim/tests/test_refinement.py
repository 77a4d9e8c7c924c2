"""Colour refinement by hashes."""

import random

import numpy as np
import pytest

from tg2hdl_sim import SimulationModel
from tg2hdl_sim.levelized.lanes import Refinement, find_lanes
from tg2hdl_sim.levelized.lowering import lower
from tg2hdl_sim.levelized.simplify import evaluation_order
from tg2hdl_sim.testing.designs import Everything, RandomDesign


def partition(colours):
    first = {}
    return [first.setdefault(colour, place) for place, colour in enumerate(colours)]


def expected(reads, colours):
    while True:
        ids = {}
        found = [
            ids.setdefault((c, *(colours[s] for s in r)), len(ids))
            for c, r in zip(colours, reads, strict=True)
        ]
        if partition(found) == partition(colours):
            return partition(found)
        colours = found


@pytest.mark.parametrize("seed", range(20))
def test_colours_are_those_of_refinement_one_by_one(seed):
    rng = random.Random(seed)
    items = rng.randrange(1, 60)
    reads = [[rng.randrange(items) for _ in range(rng.choice((0, 1, 1, 2)))] for _ in range(items)]
    start = [len(r) for r in reads]
    found = Refinement(reads).settled(np.array(start, np.int64), 100)
    assert partition(found.tolist()) == expected(reads, start)


def test_the_order_of_what_is_read_counts():
    found = Refinement([[], [], [0, 1], [1, 0], [0, 1]]).settled(np.array([0, 1, 2, 2, 2]), 10)
    assert partition(found.tolist()) == [0, 1, 2, 3, 2]


def test_too_few_rounds_are_told():
    chain = [[min(place + 1, 20)] for place in range(20)] + [[]]
    assert Refinement(chain).settled(np.array([0] * 20 + [1]), 10) is None


@pytest.mark.parametrize("make", [Everything, *(lambda seed=seed: RandomDesign(seed) for seed in range(4))])
@pytest.mark.parametrize("collide", [False, True])
def test_lanes_are_those_of_rounds_over_all_nodes(monkeypatch, make, collide):
    design = lower(SimulationModel(make()).elaboration)
    order = evaluation_order(design)
    found = find_lanes(design, order)
    if collide:
        monkeypatch.setattr(Refinement, "settled", lambda self, start, rounds: np.zeros_like(start))
    else:
        monkeypatch.setattr(Refinement, "settled", lambda self, start, rounds: None)
    assert find_lanes(design, order) == found
