"""Comparison of simulator, reference and netlist."""

from __future__ import annotations

import numpy as np

from tg2hdl_tpu import Bundle, Config, Result, run_bundle
from tg2hdl_tpu.hardware.simulate import Hardware
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.reference import Reference
from tg2hdl_tpu.testing import random_bundle

__all__ = ["check_random_programs", "check_result", "loaded_reference"]


def loaded_reference(bundle: Bundle) -> Reference:
    """The reference with the program and the data of a bundle."""
    reference = Reference(bundle.config)
    reference.load_program(bundle.program)
    for region in bundle.data:
        memory = reference.vmem if region.space == "vmem" else reference.xmem
        memory[region.start : region.start + len(region.rows)] = region.rows
    return reference


def check_result(found: Result, expected: Result, seed: int) -> None:
    """The same end, outputs, and cycles; those of a program that ends with some traps may differ."""
    assert (found.trap, found.pc) == (expected.trap, expected.pc), seed
    if expected.trap not in (Trap.INDEX, Trap.FORMAT):
        assert found.cycles == expected.cycles, seed
    for output, rows in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[output], rows, err_msg=f"{output} of seed {seed}")


def check_random_programs(config: Config, programs: int) -> None:
    """Random programs on the netlist of a machine against the simulator in software."""
    with Hardware(config, engine="levelized") as hardware:
        for seed in range(programs):
            bundle = random_bundle(seed, config, length=50, traps=seed % 4 == 3)
            check_result(hardware.run_bundle(bundle), run_bundle(bundle), seed)
