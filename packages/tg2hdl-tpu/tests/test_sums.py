"""Output-stationary products: `outer`, `preload`, and rows of the sums as operands."""

import numpy as np
import pytest

from comparison import check_random_programs, loaded_reference
from tg2hdl_ir import InputError
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_tpu import Bundle, Config, Instruction, Machine, Region, assemble, disassemble, run_bundle
from tg2hdl_tpu.hardware.pre import MatrixUnit
from tg2hdl_tpu.hardware.simulate import Hardware
from tg2hdl_tpu.hardware.sums import SumRegisters
from tg2hdl_tpu.instruction_checks import is_illegal, problem
from tg2hdl_tpu.isa import Trap, encode
from tg2hdl_tpu.page import isa_page
from tg2hdl_tpu.testing import random_bundle

SMALL = {"lanes": 4, "rows": 2, "columns": 4, "vmem_rows": 32, "xmem_rows": 64, "imem_depth": 64}
CONFIG = Config(**SMALL, output_stationary=True)


def to_int(words):
    return int.from_bytes(np.ascontiguousarray(words).tobytes(), "little")


def test_matrix_unit_multiplies_segments_of_two_rows():
    config, rng = Config(output_stationary=True), np.random.default_rng(0)
    with open_simulation(SimulationModel(MatrixUnit(config)), engine="amaranth") as sim:
        for name in ("bytes", "used", "outer"):
            sim.set(name, 1)
        for _ in range(20):
            a, b = (rng.integers(-128, 128, 64).astype(np.int8) for _ in "ab")
            at, at_b = rng.integers(0, 16, 2).tolist()
            sim.set("row", to_int(a))
            sim.set("row_b", to_int(b))
            sim.set("segment", at)
            sim.set("group", at // 4)
            sim.set("segment_b", at_b)
            products = np.frombuffer(sim.get("products").to_bytes(32, "little"), np.int16).reshape(4, 4)
            expected = np.outer(a[4 * at : 4 * at + 4].astype(int), b[4 * at_b : 4 * at_b + 4].astype(int))
            assert products.tolist() == expected.tolist()


def test_sums_are_cleared_added_set_and_read():
    config, rng = Config(lanes=8, rows=2, columns=4, output_stationary=True), np.random.default_rng(1)
    sums = np.zeros((2, 4), np.int32)
    with open_simulation(SimulationModel(SumRegisters(config)), engine="amaranth") as sim:
        for step in range(60):
            products = rng.integers(-(1 << 14), (1 << 14) + 1, (2, 4)).astype(np.int16)
            words = rng.integers(-(1 << 31), 1 << 31, 4).astype(np.int32)
            what, index = ("outer", "preload", None)[step % 3], int(rng.integers(2))
            clear = int(rng.random() < 0.2)
            sim.set("products", to_int(products))
            sim.set("words", to_int(words))
            sim.set("outer", int(what == "outer"))
            sim.set("preload", int(what == "preload"))
            sim.set("clear", clear)
            sim.set("index", index)
            sim.step()
            if what == "outer":
                sums = products.astype(np.int32) + (0 if clear else sums)
            elif what == "preload":
                sums[index] = words
            sim.set("outer", 0)
            sim.set("preload", 0)
            for row in range(2):
                sim.set("index", row)
                sim.set("drain", 1)
                found = np.frombuffer(sim.get("result").to_bytes(32, "little"), np.int32)
                assert found.tolist() == np.tile(sums[row], 2).tolist()
                sim.set("drain", 0)
                assert sim.get("result") == 0


PROGRAM = """
preload v[16:0], n=2             # bias
outer v[0:8], v[32:4], n=8 mxu8 acc
requant v[20], s[0], #19, n=2 k=9 relu
add   v[22], s[1:-1], v[17:0], n=2
halt
.out q vmem 20 2
.out s vmem 22 2
"""


def test_bias_products_requantization_and_residual_against_numpy():
    rng = np.random.default_rng(2)
    a = rng.integers(-128, 128, (8, 16)).astype(np.int8)  # column k of A in the first two bytes
    b = rng.integers(-128, 128, (8, 16)).astype(np.int8)
    bias, other = rng.integers(-5000, 5000, (2, 4)).astype(np.int32)
    program = assemble(PROGRAM, CONFIG)
    data = tuple(
        Region("vmem", at, np.ascontiguousarray(v).view(np.int32).reshape(-1, 4))
        for at, v in ((0, a), (8, b), (16, np.stack([bias, other])))
    )
    bundle = Bundle(CONFIG, program.program, data, program.outputs)
    total = a[:, :2].T.astype(int) @ b[:, :4].astype(int) + bias
    outputs = run_bundle(bundle).outputs
    assert outputs["q"].tolist() == np.clip((total * 19 + 256) >> 9, 0, 127).tolist()
    assert outputs["s"].tolist() == (total[::-1] + other).tolist()
    assert assemble(disassemble(bundle), CONFIG) == bundle
    with Hardware(CONFIG, engine="levelized") as hardware:
        found = hardware.run_bundle(bundle)
        assert found.cycles == run_bundle(bundle).cycles
        assert all((found.outputs[k] == v).all() for k, v in outputs.items())


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        pytest.param(
            Config(**SMALL, output_stationary=True, pre_registers=2, read_registers=1), marks=pytest.mark.slow
        ),
        pytest.param(Config(**SMALL, output_stationary=True, pre_registers=3), marks=pytest.mark.slow),
        Config.ecp5(**SMALL, output_stationary=True),
    ],
    ids=["plain", "two", "three", "ecp5"],
)
def test_random_programs_give_the_same_bits_in_the_same_cycles(config):
    check_random_programs(config, 40)


def test_random_programs_against_the_reference():
    ended = set()
    for seed in range(120):
        bundle = random_bundle(seed, CONFIG, traps=seed % 2 == 1)
        assert assemble(disassemble(bundle), CONFIG) == bundle
        assert Bundle.from_text(bundle.to_text()) == bundle
        result, reference = run_bundle(bundle), loaded_reference(bundle)
        assert reference.run() == (result.trap, result.pc), seed
        for name, rows in result.outputs.items():
            np.testing.assert_array_equal(rows, getattr(reference, name)[: len(rows)])
        ended.add(result.trap)
    assert ended >= {Trap.NONE, Trap.VMEM}


def test_products_of_a_tile_take_a_cycle_for_each_column():
    machine = Machine(CONFIG)
    machine.load_program([Instruction("outer", count=32, pre=2), Instruction("halt")])
    assert machine.run().cycles == 34


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("outer v[255], v[0:0], n=2 mxu8", "a is 256 of 256"),
        ("outer v[0:0], v[127], n=2 mxu8", "b is 128 of 128"),
        ("outer v[0], v[0], n=2 mxu", "operands are packed"),
        ("preload v[31], n=2", "a is 32 of 32"),
        ("preload v[0], n=3", "more rows than the 2 of the sums"),
        ("copy v[0], s[1], n=2", "row of the sums is 2 of 2"),
        ("copy v[0], s[0] mxu", "'mxu' sets pre again"),
        ("copy s[0], v[0]", "where v\\[ROW\\] should be"),
        ("add v[0], v[0], s[0]", "where v\\[ROW\\] should be"),
    ],
)
def test_wrong_programs_are_refused_with_their_place(text, reason):
    with pytest.raises(InputError, match=reason) as caught:
        assemble(text, CONFIG, name="p")
    assert caught.value.where.startswith("p:1:")


@pytest.mark.parametrize(
    ("registers", "text"),
    [
        (256, "outer v[a1], v[0], mxu8"),
        (128, "outer v[0], v[a1], mxu8"),
        (-1, "outer v[0], v[a1], mxu8"),
        (32, "preload v[a1]"),
        (2, "copy v[0], s[a1]"),
        (-1, "copy v[0], s[1+a1:-1], n=2"),
    ],
)
def test_addresses_that_are_known_late_trap(registers, text):
    bundle = assemble(f"set a1, #{registers}\n{text}\nhalt", CONFIG)
    assert run_bundle(bundle).trap == Trap.VMEM


@pytest.mark.parametrize("text", ["outer v[0], v[0], mxu8", "preload v[0]", "copy v[0], s[0]"])
def test_a_machine_without_sums_refuses_them(text):
    with pytest.raises(InputError, match="no output_stationary") as caught:
        assemble(text)
    assert "configuration has output_stationary" in str(caught.value)
    word = assemble(text, Config(output_stationary=True)).program[0]
    assert is_illegal(word, Config())
    machine = Machine()
    machine.load_program([word])
    assert machine.run().trap == Trap.ILLEGAL


def test_fields_that_are_not_used_are_illegal():
    for name, uses in (("outer", {"pre": 2, "b": 1 << 16}), ("preload", {})):
        word = encode(Instruction(name, count=1, **uses))
        assert not is_illegal(word, CONFIG)
        assert is_illegal(word | 1 << 7, CONFIG)
    assert problem(Instruction("outer", count=1, pre=2), Config()) == "this machine has no output_stationary"


def test_the_page_has_them_for_machines_that_do():
    assert "`outer`" in isa_page(CONFIG)
    assert "`outer`" not in isa_page(Config())
