"""The conformance suite for ports to memory outside the chip: golden results in the predicted cycles.

In the tests of a plugin::

    @pytest.mark.parametrize("port", my_plugin.tg2hdl_memory_ports(), ids=lambda port: port.name)
    def test_my_port(port):
        check_memory_port(port)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tg2hdl_backend.runner import Runner
from tg2hdl_ir import KernelCall, MemoryPortDef, ProgramIR, SimulationError
from tg2hdl_top import CompileOptions, compile_program
from tg2hdl_top.testing import I8, buffer, gemv, golden

__all__ = ["check_memory_port"]

# Three block RAMs of iCE40: one word of six weights is 48 bits, and each block gives 16.  The weights take more.
_ROWS, _DEPTH, _BITS = 52, 30, 3 * 4_096


def check_memory_port(definition: MemoryPortDef, *, model: Any = None, engine: str = "auto") -> None:
    """Check a registered port: several runs, where the memory limits and where the multipliers do, and a saved design.

    Parameters
    ----------
    model : ExternalMemory, optional
        The memory, that of the port unless given.

    Raises
    ------
    AssertionError
        Naming the port and the first rule that it breaks.
    """
    label = f"memory port {definition.name}"
    weights = np.random.default_rng(3).integers(-128, 128, _ROWS * _DEPTH).astype(np.int8)
    buffers = (
        buffer("x", "input", size=_DEPTH, dtype=I8),
        buffer("w", "weight", weights, _ROWS * _DEPTH, I8),
        buffer("y", "output", size=_ROWS),
    )
    program = ProgramIR("memory", buffers, (KernelCall(gemv(_ROWS, _DEPTH), (2, 1, 0)),), (2,))
    for multipliers in (1, 6):
        options = CompileOptions(
            multipliers=multipliers,
            weights="external",
            on_chip_bits=_BITS,
            target="ice40",
            memory_port=definition.name,
            memory=model,
        )
        design = compile_program(program, options)
        where = f"{label}, {multipliers} multipliers"
        assert design.streams_weights, f"{where}: the weights fit"
        assert design.external is not None, f"{where}: it streams"
        assert type(design).from_json(design.to_json()).external == design.external, f"{where}: not saved"
        _check_runs(where, program, design, engine)


def _check_runs(where: str, program: ProgramIR, design: Any, engine: str) -> None:
    rng = np.random.default_rng(0)
    predicted = design.predicted_cycles()
    with Runner(design, engine, runs=3) as runner:
        for number in range(3):
            inputs = {"x": rng.integers(-128, 128, _DEPTH).astype(np.int8)}
            try:
                run = runner.run(inputs)
            except SimulationError as error:
                raise AssertionError(f"{where}, run {number}: {error}") from error
            found, wanted = run.outputs[0], golden(program, inputs)[0]
            assert np.array_equal(found, wanted), f"{where}, run {number}: y is {found}, expected {wanted}"
            assert run.compute == predicted, (
                f"{where}, run {number}: {run.compute} cycles, {predicted} predicted"
            )
