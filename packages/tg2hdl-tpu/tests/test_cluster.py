"""Cores on a ring: no packet is lost or overtaken, and together they compute one product."""

import random

import numpy as np
import pytest

from tg2hdl_ir import InputError
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_tpu import Bundle, Config, Region, assemble, run_bundle
from tg2hdl_tpu.hardware.cluster import cluster_model, run_cluster
from tg2hdl_tpu.hardware.ring import Ring
from tg2hdl_tpu.isa import Trap

CONFIG = Config(lanes=4, rows=2, columns=2, vmem_rows=64, xmem_rows=64, imem_depth=64)


@pytest.mark.parametrize("nodes", [2, 5])
def test_a_ring_drops_nothing_and_keeps_the_order_of_a_pair(nodes):
    rng = random.Random(nodes)
    waiting = [[(rng.randrange(nodes), k) for k in range(60)] for _ in range(nodes)]
    sent = {(a, b): [] for a in range(nodes) for b in range(nodes)}
    received = {pair: [] for pair in sent}
    with open_simulation(SimulationModel(Ring(nodes, 16)), engine="amaranth") as sim:
        for cycle in range(4000):
            # The first cycles without anyone who takes: the ring fills, and must go on afterwards.
            takes = [cycle > 30 and rng.random() < 0.4 for _ in range(nodes)]
            offers = [bool(w) and rng.random() < 0.8 for w in waiting]
            for n in range(nodes):
                sim.set(f"receive{n}__ready", takes[n])
                sim.set(f"send{n}__valid", offers[n])
                if offers[n]:
                    target, number = waiting[n][0]
                    sim.set(f"send{n}__target", target)
                    sim.set(f"send{n}__data", n << 8 | number)
            for n in range(nodes):
                if offers[n] and sim.get(f"send{n}__ready"):
                    target, number = waiting[n].pop(0)
                    sent[n, target].append(number)
                if takes[n] and sim.get(f"receive{n}__valid"):
                    packet = sim.get(f"receive{n}__data")
                    received[packet >> 8, n].append(packet & 0xFF)
            sim.step()
            if not any(waiting) and sim.get("empty"):
                break
    assert not any(waiting)
    assert received == sent


PRODUCT = """
        load v[0], x[0], n=4            # A: 64 bytes
        load v[8], x[{tiles}], n={count}
        loop #2                         # a4: columns of this core
        tile v[32+a2], mxu8
        copy v[{c}+a4:2], v[0:4], n=8 mxu8 seg=2
        set  a1, #1
        set  a2, a2, #1
        loop #3
        tile v[32+a2], mxu8
        add  v[{c}+a4:2], v[a1:4], v[32], n=8 mxu8 seg=2
        set  a1, a1, #1
        set  a2, a2, #1
        end
        set  a4, a4, #1
        end
        store x[{out}], v[32], n=8
        halt
.out c xmem {out} 8
"""


def product_of_two_cores(a, w):
    """C = A W, 8 x 8 x 8: each core has 4 columns of C, one row of it in a row."""
    packed = a.astype(np.int8).reshape(-1, 16).view(np.int32)
    bundles = []
    for core in range(2):
        mine = w[:, 4 * core : 4 * core + 4].reshape(4, 2, 2, 2).transpose(2, 0, 1, 3)
        tiles = np.ascontiguousarray(mine).astype(np.int8).reshape(-1, 16).view(np.int32)
        program = assemble(
            PRODUCT.format(tiles=8 + 4 * core, count=len(tiles), c=64, out=32 + 8 * core), CONFIG
        )
        data = (Region("xmem", 0, packed), Region("xmem", 8 + 4 * core, tiles))
        bundles.append(Bundle(CONFIG, program.program, data, program.outputs))
    return bundles


def test_two_cores_compute_one_product():
    rng, noise = np.random.default_rng(1), random.Random(7)
    with open_simulation(cluster_model(CONFIG, 2), engine="levelized") as simulation:
        for stalled in (0.0, 0.6):
            a, w = (rng.integers(-128, 128, (8, 8)) for _ in "aw")
            expected = (a @ w).astype(np.int32)
            bundles = product_of_two_cores(a, w)
            found = run_cluster(
                CONFIG, bundles, stalls=lambda cycle, s=stalled: noise.random() < s, simulation=simulation
            )
            for core, (result, bundle) in enumerate(zip(found, bundles, strict=True)):
                assert result.trap == Trap.NONE
                np.testing.assert_array_equal(result.outputs["c"], expected[:, 4 * core : 4 * core + 4])
                np.testing.assert_array_equal(run_bundle(bundle).outputs["c"], result.outputs["c"])


def test_cores_share_the_external_memory_only():
    bundle = assemble("halt\n.out r vmem 0 1", CONFIG)
    with pytest.raises(InputError, match="share the external memory only"):
        run_cluster(CONFIG, [bundle])
