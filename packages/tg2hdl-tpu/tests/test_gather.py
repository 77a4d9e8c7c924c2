"""Embedding lookup: rows by index, summed."""

import numpy as np
import pytest

from tg2hdl_ir import InputError
from tg2hdl_tpu import Bundle, Config, Region, assemble, disassemble, run_bundle
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.reference import Reference

POOL = """
        index v[0]
        copy  v[512], v[100], n=16 gather acc reduce=add
        index v[1]
        copy  v[513], v[100], n=9 gather acc reduce=max
        copy  v[514], v[100], n=16 gather
        halt
.out r vmem 512 18
"""


@pytest.mark.parametrize("config", [Config(), Config.ecp5()], ids=["default", "ecp5"])
def test_bags_are_pooled_one_row_a_cycle(config):
    rng = np.random.default_rng(0)
    table = rng.integers(-1000, 1000, (300, 16)).astype(np.int32)
    bags = rng.integers(0, 300, (2, 16)).astype(np.int32)
    program = assemble(POOL, config)
    bundle = Bundle(
        config, program.program, (Region("vmem", 0, bags), Region("vmem", 100, table)), program.outputs
    )
    result = run_bundle(bundle)
    found = result.outputs["r"]
    np.testing.assert_array_equal(found[0], table[bags[0]].sum(axis=0))
    np.testing.assert_array_equal(found[1], table[bags[1][:9]].max(axis=0))
    np.testing.assert_array_equal(found[2:], table[bags[1]])
    # Two `index`, 41 rows, a cycle for each gathering instruction, and the way from `index` to its register, which
    # begins with the queue of rows.
    way = 2 + config.read_registers + 2 * config.issue_registers
    assert result.cycles <= 2 + 41 + 3 + 2 * way + config.latency + 4 + config.issue_registers
    assert assemble(disassemble(bundle), config).program == bundle.program


@pytest.mark.parametrize("index", [-1, 1024, 1 << 16, -(1 << 31), (1 << 31) - 1])
def test_an_index_outside_the_scratchpad_traps(index):
    text = f"index v[0]\ncopy v[2], v[0], n=2 gather\nhalt\n.vmem 0 = 1 {index}\n"
    bundle = assemble(text, Config())
    result = run_bundle(bundle)
    assert (result.trap, result.pc) == (Trap.VMEM, 1)
    reference = Reference(Config())
    reference.load_program(list(bundle.program))
    reference.vmem[0, 1] = index
    reference.vmem[0, 0] = 1
    assert reference.run() == (Trap.VMEM, 1)


@pytest.mark.parametrize("options", ["n=17 gather", "gather transpose"])
def test_what_cannot_be_gathered_is_refused(options):
    with pytest.raises(InputError, match=r"indices|again"):
        assemble(f"copy v[0], v[1], {options}", Config())
    with pytest.raises(InputError, match="gather has no stride"):
        assemble("copy v[0], v[1:2], gather", Config())
