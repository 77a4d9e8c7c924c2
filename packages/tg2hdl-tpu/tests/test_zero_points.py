"""Requantization with a zero point, as int8 models have it."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from comparison import check_random_programs
from tg2hdl_ir import InputError
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_tpu import Bundle, Config, Machine, Region, assemble, run_bundle
from tg2hdl_tpu.hardware.alu import Alu, controls
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.vector_ops import BY_NAME

SMALL = {"lanes": 4, "rows": 2, "columns": 4, "vmem_rows": 32, "xmem_rows": 64, "imem_depth": 64}
CONFIG = Config(**SMALL, output_stationary=True, zero_points=True)


def exact(a, multiplier, k, zero):
    """Rounded half up in exact arithmetic, moved by the zero point, then clamped once."""
    return max(-128, min(127, floor(Fraction(a * multiplier, 1 << k) + Fraction(1, 2)) + zero))


def operands(count):
    rng = np.random.default_rng(count)
    for n in range(count):
        k, multiplier, zero = (
            int(rng.integers(1, 33)),
            int(rng.integers(1 << 16)),
            int(rng.integers(-128, 128)),
        )
        # Mostly near the range, with its edges and halves; else anything.
        near = int(rng.integers(-300, 301) * 2 + rng.integers(2)) * (1 << (k - 1)) // max(multiplier, 1)
        a = near + int(rng.integers(-2, 3)) if n % 4 else int(rng.integers(-(1 << 31), 1 << 31))
        yield max(-(1 << 31), min((1 << 31) - 1, a)), multiplier, k, zero


def test_what_it_computes():
    for a, multiplier, k, zero in operands(2000):
        b = multiplier | (zero & 0xFF) << 16
        found = BY_NAME["requantz"].numpy(np.array([a], np.int32), np.array([b], np.int32), None, k)
        assert found.tolist() == [exact(a, multiplier, k, zero)], (a, multiplier, k, zero)


@pytest.mark.parametrize("registers", [0, 5])
@pytest.mark.parametrize("name", ["requantz", "requant", "add"])
def test_the_lane(registers, name):
    bits = sum((name in names) << n for n, names in enumerate(controls(zero_points=True).values()))
    with open_simulation(SimulationModel(Alu(registers, zero_points=True)), engine="levelized") as sim:
        sim.set("next_control", bits)
        for a, multiplier, k, zero in operands(800):
            b = multiplier | (zero & 0xFF) << 16
            if name == "add":
                wanted = int(np.int64(a + b).astype(np.int32))
            else:
                wanted = exact(a, multiplier, k, zero if name == "requantz" else 0)
            sim.set("next_k", k if name != "add" else 0)
            for relu in (0, 1):
                sim.set("next_relu", relu)
                sim.step()
                for port, value in (("a", a), ("b", b), ("factor", b), ("top", int(a < 0))):
                    sim.set(port, value)
                sim.step(registers)
                assert sim.get("result") == (max(wanted, 0) if relu else wanted), (a, multiplier, k, zero)


def test_it_is_on_the_way_out_of_the_sums():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, (8, 16)).astype(np.int8) for _ in "ab")
    rows = rng.integers(1, 40, (1, 4)).astype(np.int32)  # a multiplier for each column
    zeros = rng.integers(-128, 128, (1, 4)).astype(np.int32)
    text = "outer v[0:8], v[32:4], n=8 mxu8\nrequantz v[20], s[0], v[16:0], n=2 k=8\nhalt\n.out r vmem 20 2"
    program = assemble(text, CONFIG)
    data = tuple(
        Region("vmem", at, np.ascontiguousarray(v).view(np.int32).reshape(-1, 4))
        for at, v in ((0, a), (8, b), (16, rows | (zeros & 0xFF) << 16))
    )
    bundle = Bundle(CONFIG, program.program, data, program.outputs)
    total = (a[:, :2].T.astype(int) @ b[:, :4].astype(int)).tolist()
    expected = [[exact(v, int(rows[0, n]), 8, int(zeros[0, n])) for n, v in enumerate(row)] for row in total]
    assert run_bundle(bundle).outputs["r"].tolist() == expected


def test_random_programs_give_the_same_bits_in_the_same_cycles():
    check_random_programs(Config.ecp5(**SMALL, output_stationary=True, zero_points=True), 40)


def test_other_machines_refuse_it():
    text = "requantz v[0], v[1], #5, k=3"
    with pytest.raises(InputError, match="requantz: this machine has no zero_points") as caught:
        assemble(text)
    assert "configuration has zero_points" in str(caught.value)
    machine = Machine()
    machine.load_program([assemble(text, CONFIG).program[0]])
    assert machine.run().trap == Trap.ILLEGAL
