"""The simulated netlist against the simulator in software: bits and cycles of random programs."""

import numpy as np
import pytest

from comparison import check_result
from tg2hdl_ir import InputError
from tg2hdl_tpu import Config, assemble, run_bundle
from tg2hdl_tpu.hardware.simulate import Hardware
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.testing import random_bundle

SMALL = {"lanes": 4, "rows": 2, "columns": 2, "vmem_rows": 32, "xmem_rows": 64, "imem_depth": 64}
CONFIGS = {
    "plain": Config(**SMALL),
    "deep": Config(
        **SMALL | {"rows": 4, "columns": 4}, issue_registers=1, read_registers=1, pre_registers=5, alu_registers=5,
        reduce_registers=3, float=True, functions=True, float_stages=8, float_lanes=1,
        memory_latency=7, memory_interval=2, refresh_period=50, refresh_cycles=9,
    ),
    "narrow crossbar": Config.ecp5(**SMALL, crossbar_lanes=2),
    "one layer of reduction": Config.ecp5(**SMALL, reduce_layers=1),
    "one layer of reduction, no other registers": Config(**SMALL, reduce_layers=1, reduce_registers=3),
    "eight lanes, one layer": Config.ecp5(**SMALL | {"lanes": 8}, reduce_layers=1, crossbar_lanes=2),
    "narrow crossbar, no registers": Config(**SMALL, crossbar_lanes=1),
}  # fmt: skip


# The machine of eight lanes has a narrow crossbar and one layer of reduction.
PARTS = {"narrow crossbar", "one layer of reduction", "one layer of reduction, no other registers"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in PARTS else name for name in CONFIGS]
)
def test_random_programs_give_the_same_bits_in_the_same_cycles(name):
    config = CONFIGS[name]
    ended = set()
    with Hardware(config, engine="levelized") as hardware:
        for seed in range(60):
            bundle = random_bundle(seed, config, traps=seed % 2 == 1)
            expected = run_bundle(bundle)
            check_result(hardware.run_bundle(bundle), expected, seed)
            ended.add(expected.trap)
        for text in (
            "set a1, #0x7fffff\nset a1, a1, #1\nhalt",
            "loop #2\nloop #2\nloop #2\nloop #2\nloop #2\nhalt",
            "end",
            "jump 63",
            # What is handed over behind a sum that is out of range has no effect, and the run does not end before it.
            *(
                f"set a1, #0x7fffff\ncopy v[7], v[3], n=3\nset a1, a1, #1\n{line}\n{line}\nhalt\n.out r vmem 0 32"
                for line in ("add v[5], v[3], #1", "lda a2, v[3], k=1", "halt", "end", "jump 63")
            ),
            # Four rows wait behind one that waits; the last instruction is dropped, and none of them.
            "copy v[4], v[3], n=3\n"
            + "".join(f"add v[{10 + n}], v[2], #{n}\n" for n in range(4))
            + "loop a1, #0\nadd v[20], v[2], #1\nhalt\n.vmem 2 = 5 6 7 8\n.out r vmem 0 32",
            # Registers that are read in the cycle in which they are written, and loops of little.
            "set a1, #2\nset a2, a1, #1\nadd v[a2], v[a1], #1\nbnz a2, 5\nend\nset a3, a2, #-3\nbz a3, 8\nend"
            "\nloop a2, #1\nloop #2\nend\nend\nloop #2\nadd v[a2], v[a2], #2\nend\nhalt\n.out r vmem 0 8",
            # Products right behind the weights, which are negative.
            "tile v[0], mxu8\ncopy v[8], v[3] mxu8\nweights v[1], n=2 mxu8\ncopy v[9], v[3] mxu8\nhalt"
            "\n.vmem 0 = -1 -2 -300000 -4\n.out r vmem 8 2",
            "lda a1, v[1], k=3\ncopy v[2], v[0+a1]\nhalt\n.vmem 1 = 0 0 0 5\n.vmem 5 = 1 2 3 4\n.out r vmem 2 1",
        ):
            bundle = assemble(text, config)
            expected, found = run_bundle(bundle), hardware.run_bundle(bundle)
            assert (found.trap, found.pc, found.cycles) == (expected.trap, expected.pc, expected.cycles), text
            assert all((found.outputs[k] == expected.outputs[k]).all() for k in expected.outputs)
            ended.add(expected.trap)
        # What lies behind the end is not executed, not even after it.
        hardware.run_bundle(assemble("halt\nadd v[8], v[9], #1\nadd v[9], v[9], #1\nhalt", config))
        hardware.simulation.step(40)
        assert not hardware.read("vmem").any()
    assert ended >= {Trap.NONE, Trap.REGISTER, Trap.LOOP, Trap.ILLEGAL, Trap.FORMAT}


@pytest.mark.parametrize("make", [Config, Config.ecp5], ids=["no registers", "ecp5"])
def test_a_narrow_crossbar_takes_a_permuted_row_in_parts(make):
    lines = [
        "copy v[8], v[2], n=4 rotate=3",
        "copy v[12], v[2], n=4 broadcast=1",
        "copy v[16], v[2], n=4 transpose",
        "copy v[20], v[2], v[1] permute",
        "select v[24], v[2], v[3] rotate=1",  # which also reads its old destination
        "copy v[25], v[2]",
        "halt",
        ".out r vmem 0 26",
        ".vmem 1 = 3 0 0 2",
        *(f".vmem {2 + n} = {4 * n} {4 * n - 5} 7 -{n}" for n in range(4)),
        ".vmem 24 = 1 0 -1 0",
    ]
    cycles = []
    for crossbar in (0, 1):
        config = make(**SMALL, crossbar_lanes=crossbar)
        bundle = assemble("\n".join(lines), config)
        expected = run_bundle(bundle)
        with Hardware(config, engine="levelized") as hardware:
            found = hardware.run_bundle(bundle)
        rows = found.outputs["r"]
        np.testing.assert_array_equal(rows, expected.outputs["r"])
        np.testing.assert_array_equal(rows[8:12], np.roll(rows[2:6], -3, axis=1))
        np.testing.assert_array_equal(rows[12:16], np.repeat(rows[2:6, 1:2], 4, axis=1))
        np.testing.assert_array_equal(
            rows[16:20], rows[2:6].reshape(4, 2, 2).transpose(0, 2, 1).reshape(4, 4)
        )
        np.testing.assert_array_equal(rows[20], rows[2][rows[1]])
        rotated = np.roll(rows[2], -1)
        np.testing.assert_array_equal(rows[24], np.where([True, False, True, False], rotated, rows[3]))
        assert found.cycles == expected.cycles
        cycles.append(found.cycles)
    # 14 permuted rows in four cycles each.
    assert cycles[1] - cycles[0] == 14 * 3


def test_one_layer_of_reduction_takes_a_row_a_level():
    lines = [
        "copy v[8], v[2], n=4 reduce=add levels=3",
        "copy v[12], v[2], n=4 reduce=max levels=2",
        "copy v[16], v[2], n=4 reduce=min levels=1",
        "copy v[20], v[2], n=4 acc reduce=add levels=3",  # of which only the last row is written
        "copy v[21], v[2], n=4",
        "halt",
        ".out r vmem 0 25",
        *(f".vmem {2 + n} = {4 * n} {4 * n - 5} 7 -{n}" for n in range(4)),
    ]
    cycles = []
    for layers in (0, 1):
        config = Config.ecp5(**SMALL, reduce_layers=layers)
        bundle = assemble("\n".join(lines), config)
        with Hardware(config, engine="levelized") as hardware:
            found = hardware.run_bundle(bundle)
        rows = found.outputs["r"]
        given = rows[2:6]
        np.testing.assert_array_equal(rows[8:12], np.repeat(given.sum(1, keepdims=True), 4, axis=1))
        np.testing.assert_array_equal(rows[12:16], np.tile(given.reshape(4, 2, 2).max(1), 2))
        pairs = given.reshape(4, 2, 2).min(2)
        np.testing.assert_array_equal(rows[16:20], np.repeat(pairs, 2, axis=1))
        assert (rows[20] == given.sum()).all()
        np.testing.assert_array_equal(rows[21:25], given)
        assert found.cycles == run_bundle(bundle).cycles
        cycles.append(found.cycles)
    # 11 of the first 12 rows wait a cycle for the row before; the sum of four rows comes late enough.
    assert cycles[1] - cycles[0] == 11


def test_one_layer_of_reduction_needs_its_registers():
    with pytest.raises(
        InputError, match=r"reduce_layers is 1, and reduce_registers 2(.|\n)*reduce_registers=3"
    ):
        Config.ecp5(**SMALL, reduce_layers=1, reduce_registers=2)
