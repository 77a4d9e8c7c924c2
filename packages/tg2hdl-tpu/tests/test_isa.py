import random
import subprocess
import sys

import pytest

from tg2hdl_ir import InputError
from tg2hdl_tpu import Config, Instruction
from tg2hdl_tpu.instruction_checks import illegal, is_illegal, problem
from tg2hdl_tpu.isa import FIELDS, OPCODES, decode, encode
from tg2hdl_tpu.page import isa_page
from tg2hdl_tpu.testing import random_instruction
from tg2hdl_tpu.vector_ops import VECTOR_OPS


def test_fields_fill_the_word_without_overlap():
    mask = 0
    for field in FIELDS.values():
        bits = ((1 << field.width) - 1) << field.low
        assert mask & bits == 0
        mask |= bits
    assert mask == (1 << 128) - 1


def test_codes_are_unique():
    codes = [opcode.code for opcode in OPCODES.values()]
    assert len(set(codes)) == len(codes)
    assert 0 not in codes


def test_words_round_trip():
    rng = random.Random(1)
    for config in (Config(float=True), Config(lanes=8, rows=8, columns=2, vmem_rows=64)):
        for _ in range(300):
            instruction = random_instruction(rng, config, traps=True)
            assert decode(encode(instruction)) == instruction
            assert not is_illegal(encode(instruction), config)


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        (Instruction("set", b=1), "a0 is always zero"),
        (Instruction("lda", dst_reg=1, k=16), "no such lane"),
        (Instruction("add"), "no rows"),
        (Instruction("weights", count=5, pre=1), "more tile rows than the 4 of the machine"),
        (Instruction("tile"), "weights are words (mxu) or packed (mxu8)"),
        (Instruction("fadd", count=1), "this machine has no float"),
        (Instruction("add", count=1, segment=5), "no such segment"),
        (Instruction("add", count=1, levels=16, reduce=1), "no such level of the reduction"),
        (Instruction("add", count=1, levels=1), "levels or acc without reduce"),
        (Instruction("add", count=1, reduce=1), "reduce without levels or acc"),
        (Instruction("add", count=1, levels=2, reduce=1, pack=1), "pack needs the lowest levels"),
        (Instruction("add", count=1, xlu=2), "a mode of the crossbar without it"),
        (Instruction("add", count=1, pre=3, xlu=3, constant=1), "permute needs indices in b"),
        (Instruction("add", count=1, k=1), "a parameter that nothing uses"),
        (Instruction("requant", count=1, pre=3, k=1), "the operation and the crossbar both need k"),
        (Instruction("add", count=1, constant=1, b_reg=1), "a constant has no address register"),
    ],
)
def test_what_no_machine_executes(instruction, reason):
    assert problem(instruction, Config()) == reason
    assert is_illegal(encode(instruction), Config())


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        (Instruction("add", count=2, dst=1023, dst_stride=1), "dst is 1024 of 1024"),
        (Instruction("add", count=3, a=1, a_stride=-1), "a is -1 of 1024"),
        (Instruction("add", count=1, b=1024), "b is 1024 of 1024"),
        (Instruction("add", count=1, pre=1, a=4096), "a is 4096 of 4096"),
        (Instruction("load", count=2, b=65535), "external row is 65536 of 65536"),
        (Instruction("jump", dst=512), "program address 512 of 512"),
        (Instruction("loop"), "0 iterations"),
        (Instruction("set", dst_reg=1, b=1 << 23), "constant 8388608 beyond 24 bits"),
    ],
)
def test_constant_addresses_are_checked(instruction, reason):
    assert problem(instruction, Config()) == reason
    assert not is_illegal(encode(instruction), Config())


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="dst of add is 32768"):
        encode(Instruction("add", dst=1 << 15))
    with pytest.raises(InputError, match="halt has no count"):
        encode(Instruction("halt", count=1))
    with pytest.raises(InputError, match="no instruction has the opcode 0"):
        decode(0)


def test_the_decoder_of_the_hardware_has_the_same_conditions():
    from types import SimpleNamespace

    from amaranth.hdl import Signal, Value, signed, unsigned

    fields = SimpleNamespace(
        **{f.name: Signal(signed(f.width) if f.signed else unsigned(f.width)) for f in FIELDS.values()}
    )
    reasons = [reason for condition, reason in illegal(fields, Config()) if Value.cast(condition) is not None]
    assert "no rows" in reasons


def test_the_page_has_every_instruction():
    parts = ("float", "functions", "divide", "zero_points", "output_stationary")
    page = isa_page(Config(**dict.fromkeys(parts, True)))
    for opcode in OPCODES.values():
        assert f"| `{opcode.name}` | {opcode.code} |" in page
    assert "`fadd`" not in isa_page(Config())
    assert len(VECTOR_OPS) <= 126 - 32


ADDED = """
import numpy as np
from tg2hdl_tpu import vector_ops
vector_ops.VECTOR_OPS += (
    vector_ops.VectorOp(
        "andn", "a and not b", "ua & ~ub", lambda a, b, c, k: a & ~b, lambda lane: lane.a & ~lane.b
    ),
)
vector_ops.BY_NAME["andn"] = vector_ops.VECTOR_OPS[-1]
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_tpu import Config, assemble, disassemble, run_bundle
from tg2hdl_tpu.hardware.alu import Alu, controls
from tg2hdl_tpu.page import isa_page
bundle = assemble("andn v[1], v[0], #12\\nhalt\\n.vmem 0 = 7 -1\\n.out r vmem 1 1")
assert run_bundle(bundle).outputs["r"][0, :2].tolist() == [3, ~12]
assert "andn     v[1], v[0], #12" in disassemble(bundle)
assert "a and not b" in isa_page(Config())
with open_simulation(SimulationModel(Alu()), engine="amaranth") as simulation:
    simulation.set("a", 7)
    simulation.set("b", 12)
    simulation.set("next_control", 1 << list(controls()).index("own andn"))
    simulation.step()
    assert simulation.get("result") == 3
"""


def test_an_operation_is_added_by_one_entry():
    # In a process of its own: the tables are made when they are imported.
    subprocess.run([sys.executable, "-c", ADDED], check=True)
