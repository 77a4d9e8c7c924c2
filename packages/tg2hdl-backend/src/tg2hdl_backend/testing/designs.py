"""Conformance suites for sequencers and kinds of memory: golden results in the predicted cycles.

In the tests of a plugin::

    @pytest.mark.parametrize("sequencer", my_plugin.tg2hdl_sequencers(), ids=lambda sequencer: sequencer.name)
    def test_my_sequencer(sequencer):
        check_sequencer(sequencer)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tg2hdl_backend.runner import Runner
from tg2hdl_ir import DType, KernelCall, MemoryKindDef, ProgramIR, SequencerDef, SimulationError, registry
from tg2hdl_lower import MemoryKind
from tg2hdl_top import CompileOptions, Design, compile_program
from tg2hdl_top.sequencer import Sequencer
from tg2hdl_top.testing import I8, buffer, elementwise, gemv, golden

__all__ = ["check_memory_kind", "check_sequencer"]

_RUNS = 2


def _program(rows: int, depth: int) -> ProgramIR:
    """Two products with weights and kernels between them: results are read twice, and by several lanes at once."""
    rng = np.random.default_rng(3)
    weights = {"w": rng.integers(-128, 128, rows * depth), "v": rng.integers(-128, 128, rows * rows)}
    buffers = (
        *(buffer(name, "weight", w.astype(np.int8), w.size, I8) for name, w in weights.items()),
        buffer("x", "input", size=depth, dtype=I8),
        buffer("bias", "input", size=rows),
        *(buffer(name, "temporary", size=rows) for name in ("s", "t", "u")),
        buffer("y", "output", size=rows),
    )
    calls = (
        KernelCall(gemv(rows, depth), (4, 0, 2)),
        KernelCall(elementwise("add", 1, rows), (5, 4)),
        KernelCall(elementwise("max", 2, rows), (6, 5, 3)),
        KernelCall(gemv(rows, rows, DType.INT32), (7, 1, 6)),
    )
    return ProgramIR("conformance", buffers, calls, (7,))


def check_sequencer(definition: SequencerDef, *, engine: str = "auto") -> None:
    """Check a registered sequencer: kernels that depend on each other, several runs, bits and exact cycles.

    Parameters
    ----------
    definition : SequencerDef
        Registered.
    engine : str, default "auto"
        Name, or ``"auto"``.

    Raises
    ------
    AssertionError
        Naming the sequencer and the first rule that it breaks.
    """
    label = f"sequencer {definition.name}"
    made = registry().call(definition, "sequencer")
    assert isinstance(made, Sequencer), f"{label}: its factory made {type(made).__name__}, not a Sequencer"
    for rows, depth, multipliers in ((6, 10, 1), (5, 3, 2)):
        program = _program(rows, depth)
        options = CompileOptions(schedule=definition.name, multipliers=multipliers, share_kernels=False)
        design = compile_program(program, options)
        assert compile_program(program, options).to_json() == design.to_json(), (
            f"{label}: a second plan differs"
        )
        timeline = design.timeline()
        for number, (start, end) in enumerate(zip(timeline.starts, timeline.ends, strict=True)):
            assert 0 <= start < end, f"{label}: kernel {number} runs from {start} to {end}"
        assert timeline.interval >= 1, f"{label}: runs follow each other every {timeline.interval} cycles"
        _check_runs(f"{label}, {rows} rows", program, design, engine)


def check_memory_kind(definition: MemoryKindDef, *, engine: str = "auto", target: str = "generic") -> int:
    """Check a registered kind of memory in designs with small and large buffers, one lane and several.

    Parameters
    ----------
    target : str
        FPGA family that is planned for.

    Returns
    -------
    int
        How many buffers became memories of this kind.

    Raises
    ------
    AssertionError
        Naming the kind and the first rule that it breaks, or when no buffer suits it.
    """
    label = f"memory kind {definition.name}"
    made = registry().call(definition, "kind")
    assert isinstance(made, MemoryKind), f"{label}: its factory made {type(made).__name__}, not a MemoryKind"
    count = 0
    for rows, depth, multipliers, weights in ((6, 10, 1, "rom"), (8, 8, 8, "loadable"), (24, 64, 2, "rom")):
        program = _program(rows, depth)
        options = CompileOptions(multipliers=multipliers, weights=weights, target=target)
        design = compile_program(program, options)
        used = sum(memory.kind == definition.name for memory in design.buffers)
        count += used
        if used:
            _check_runs(f"{label}, {rows} x {depth}, {weights} weights", program, design, engine)
    assert count, f"{label}: none of the buffers suits it, or kinds of a higher priority do"
    return count


def _check_runs(where: str, program: ProgramIR, design: Design, engine: str) -> None:
    """Runs with different inputs: every bit is golden, and each run takes the predicted cycles."""
    rng = np.random.default_rng(0)
    predicted = design.predicted_cycles()
    with Runner(design, engine, runs=_RUNS) as runner:
        for number in range(_RUNS):
            inputs: dict[str, Any] = {}
            for spec in (b for b in program.buffers if b.role == "input"):
                # Small numbers, so that sums of them never overflow.
                inputs[spec.name] = rng.integers(-128, 128, spec.depth).astype(spec.dtype.numpy())
            try:
                run = runner.run(inputs)
            except SimulationError as error:
                raise AssertionError(f"{where}, run {number}: {error.message}") from error
            (found,), (wanted,) = run.outputs, golden(program, inputs)
            assert np.array_equal(found, wanted), f"{where}, run {number}: y is {found}, expected {wanted}"
            cycles = f"{run.compute} cycles, {predicted} predicted"
            assert run.compute == predicted, f"{where}, run {number}: {cycles}"
