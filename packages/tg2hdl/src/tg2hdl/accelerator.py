"""A compiled model: its plan, its simulation, its golden model and its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tg2hdl.hdl_files import module_name, rtlil_text, verilog_text, with_memory_files, write_text
from tg2hdl.layers import layer_of, weight_origins
from tg2hdl.loadable_weights import check_weights, loaded_buffers
from tg2hdl.macs import count_macs
from tg2hdl.memory_map import MemoryMap
from tg2hdl.quantization import QuantizedModel
from tg2hdl.results import Cycles, KernelSummary, SimulationResult
from tg2hdl_backend import CapturedProgram, capture, own_result, reference_device
from tg2hdl_backend.agreement import Agreement, agreement
from tg2hdl_backend.runner import Run, Runner
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.golden import evaluate_program
from tg2hdl_lower import HardwarePlan
from tg2hdl_top import CompileOptions, Design, TopModule, compile_program

if TYPE_CHECKING:
    from tg2hdl.report import Report

__all__ = ["Accelerator", "Session", "compile_model_to_hardware"]


class Accelerator:
    """Hardware of a model; made by `tg2hdl.compile`.

    Attributes
    ----------
    captured : CapturedProgram
        The model as kernels over buffers.
    design : Design
        Everything that was decided about the hardware.
    """

    def __init__(
        self,
        captured: CapturedProgram,
        design: Design,
        prepare: Callable[..., tuple[Any, ...]] | None = None,
    ) -> None:
        self.captured = captured
        self._prepare = prepare
        self.design = design
        self._sessions: dict[str, Session] = {}
        self._state: dict[str, np.ndarray] = {}
        self._weights: dict[str, np.ndarray] = {}
        self._loaded: dict[str, np.ndarray] = {}
        self._rtlil: str | None = None

    def __repr__(self) -> str:
        return f"<Accelerator {self.name}: {len(self.kernels)} kernels, {self.predicted_cycles} cycles>"

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.design.program.name

    @property
    def options(self) -> CompileOptions:
        """Options that it was compiled with."""
        return self.design.options

    @cached_property
    def top(self) -> TopModule:
        """The hardware: an ordinary Amaranth Component."""
        return TopModule(self.design)

    @property
    def kernels(self) -> tuple[KernelSummary, ...]:
        """The kernels in execution order, as planned."""
        variables, program = self.captured.var_vals, self.design.program
        origins = weight_origins((self.captured.preparation, self.design.preparation))
        return tuple(
            KernelSummary(
                kernel.name,
                plan.steps(variables),
                plan.ii,
                plan.cycles(variables),
                plan.multipliers,
                count_macs(kernel, variables),
                (*plan.notes, *self._excess(plan)),
                layer_of(call, program, origins),
            )
            for kernel, plan, call in zip(
                self.design.sources, self.design.kernels, program.calls, strict=True
            )
        )

    def _excess(self, plan: HardwarePlan) -> tuple[str, ...]:
        """Note about a kernel that takes more multipliers than asked for."""
        asked = self.options.multipliers or 1
        if plan.multipliers <= asked or not self.options.chooses_lanes:
            return ()
        return (f"one step needs {plan.multipliers} multipliers, which is more than multipliers={asked}",)

    @property
    def predicted_cycles(self) -> int:
        """Clock cycles from start to done, before any simulation; exact."""
        return self.design.predicted_cycles(self.captured.var_vals)

    @property
    def predicted_interval(self) -> int:
        """Clock cycles from one start to the next, if runs follow each other without waiting for the host."""
        return self.design.timeline(self.captured.var_vals).interval

    def plan(self) -> str:
        """Printed design: ports, memories and the hardware plans of all kernels."""
        return self.design.format()

    # Running

    def simulate(
        self,
        *inputs: Any,
        engine: str = "auto",
        vcd: str | PathLike[str] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> SimulationResult:
        """Run on simulated hardware, cycle by cycle.

        The simulation stays open for further calls: what the model updates in place continues from the run
        before, until `reset`.  ``engine="auto"`` selects the engine that finishes first, given the cycles simulated so
        far: a loop over many inputs switches to a compiled engine.

        Parameters
        ----------
        inputs : arrays or tensors
            One per input of the model, of the shape and dtype it was compiled for.
        engine : str
            ``auto``, ``cxxrtl``, ``amaranth`` or another registered engine.
        vcd : path, optional
            Waveform of this run.
        progress : callable, optional
            Called with a message before each slow step.

        Raises
        ------
        InputError
            For a missing input, or one of another shape or dtype.
        ToolMissingError
            When the engine cannot run here.
        """
        named = self._bind(inputs)
        if vcd is not None:
            with self.session(engine, vcd=vcd, progress=progress) as session:
                return session.run_bound(named)
        return self._open(engine, progress).run_bound(named)

    def load_weights(self, weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Use other weights from the next run on, in `simulate` and in `golden`.

        Parameters
        ----------
        weights : mapping of str to array
            By the names of the model's tensors, in the shapes and dtypes it was compiled with; the others stay.

        Returns
        -------
        dict of str to ndarray
            Flat contents of the memories to write, by buffer: also of those that hold values computed from weights.

        Raises
        ------
        InputError
            For weights that are not loadable, not known, or of another shape or dtype.
        """
        self._weights |= check_weights(self.captured, self.design, weights)
        self._loaded = loaded_buffers(self.captured, self.design, self._weights)
        return dict(self._loaded)

    def session(
        self,
        engine: str = "auto",
        *,
        runs: int = 1,
        vcd: str | PathLike[str] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Session:
        """Open a simulation for about `runs` runs, which decides the engine when it is ``auto``."""
        return Session(self, engine, runs=runs, vcd=vcd, progress=progress)

    def golden(self, *inputs: Any) -> Any:
        """Bit-exact result in software, in the model's shape and dtype.

        What the model updates in place continues from the run before, as it does in `simulate`; see `reset`.
        """
        program = self.design.program
        results = evaluate_program(
            program,
            self._bind(inputs),
            self.captured.var_vals or None,
            target=self.options.target,
            units=self.options.units,
            state=self._state,
        )
        return self.captured.restore([results[program.buffers[b].name] for b in program.outputs])

    def reference(self, *inputs: Any) -> Any:
        """tinygrad's own result for the model, in the model's shape and dtype.

        The compiler is not involved, so this tests capture, contents of weights and kernels; the state
        of the model is that of its tensors.  It runs in tinygrad's interpreter, or compiled by clang where there is
        one and the model is large.
        """
        program = self.design.program
        operations = sum(k.macs for k in self.kernels) or 1
        device = reference_device(operations, (b.dtype for b in program.buffers))
        assert self.captured.model is not None
        return self.captured.restore(own_result(self.captured.model, *inputs, device=device))

    def check(self, output: Any, *inputs: Any) -> tuple[Agreement, ...]:
        """Compare a result with tinygrad's own for the same inputs, see `reference`: one `Agreement` per output."""
        found = self.captured.flat(output)
        references = self.captured.flat(self.reference(*inputs))
        return tuple(
            agreement(array, reference, spec.dtype)
            for array, reference, spec in zip(found, references, self.captured.outputs, strict=True)
        )

    def reset(self) -> None:
        """Start over: `simulate` and `golden` forget what runs before them updated in place."""
        self._state.clear()
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    # Memories and parts

    @property
    def memory(self) -> MemoryMap:
        """The memories: bits, words, ports and layouts; prints as a table."""
        return MemoryMap(self.design)

    def pack(self, name: str, array: Any) -> np.ndarray:
        """Words of a memory (Python integers) for an array of the model; see `MemoryMap.pack`."""
        return self.memory.pack(name, array)

    def unpack(self, name: str, words: Any) -> np.ndarray:
        """Array of the model from the words of a memory; see `MemoryMap.unpack`."""
        return self.memory.unpack(name, words)

    def fits(self, part: str = "ecp5-45k") -> Any:
        """Whether the design fits a part, with the figures and what would help; see `tg2hdl_synth.design_fits`.

        Without synthesis: memories are known from the plan, the rest is an estimate whose error is stated.
        """
        from tg2hdl_synth import design_fits

        return design_fits(self.design, part, pack_registers=self.options.target == "ecp5")

    # Synthesis

    def synthesize(self, part: str = "ecp5-45k", speed: int = 6, seeds: int = 3, **options: Any) -> Any:
        """Fmax, utilization by kernel and critical path on an FPGA; see `tg2hdl_synth.synthesize`.

        If the model was compiled for the family ``ecp5``, registers are packed into block RAMs and multipliers.
        """
        from tg2hdl_synth import synthesize

        options.setdefault("pack_registers", self.options.target == "ecp5")
        return synthesize(self.top, part, speed, seeds, name=module_name(self.name), **options)

    # Report

    def report(
        self,
        *inputs: Any,
        simulation: SimulationResult | None = None,
        synthesis: Any = None,
        against: str | PathLike[str] | None = None,
    ) -> Report:
        """One HTML page about the design: layers, timeline, memories, roofline, area, datapaths, numbers.

        Parameters
        ----------
        inputs : arrays
            The run whose numbers are shown; none are shown without.
        simulation : SimulationResult, optional
            Of `simulate`.
        synthesis : SynthesisResult, optional
            Of `synthesize`.
        against : path, optional
            The ``.json`` file of an earlier report, to compare with.

        Returns
        -------
        Report
            Saved by ``.save("report.html")``; shows itself in Jupyter.
        """
        from tg2hdl.report import build_report

        return build_report(self, inputs, simulation, synthesis, against)

    def _repr_html_(self) -> str:
        from tg2hdl.report.tables import accelerator_table

        return accelerator_table(self)

    # Files

    def verilog(
        self, path: str | PathLike[str] | None = None, *, memories: str | PathLike[str] | None = None
    ) -> str:
        """Verilog of the design; written to `path` when given.

        Parameters
        ----------
        memories : path, optional
            Folder for the contents of memories, one ``.hex`` file each, which the Verilog then reads with
            ``$readmemh`` by its name alone.
        """
        text = verilog_text(self.rtlil())
        if memories is not None:
            text = with_memory_files(text, memories)
        return write_text(text, path)

    def rtlil(self, path: str | PathLike[str] | None = None) -> str:
        """RTLIL of the design, for Yosys; written to `path` when given."""
        if self._rtlil is None:
            self._rtlil = rtlil_text(self.top, self.name)
        return write_text(self._rtlil, path)

    def _bind(self, inputs: tuple[Any, ...]) -> dict[str, np.ndarray]:
        buffers = self.design.program.buffers
        if self._prepare is not None:
            inputs = self._prepare(*inputs)
        inputs_by_name = {buffers[n].name: array for n, array in self.captured.bind(*inputs).items()}
        return {**self._loaded, **inputs_by_name}

    def _open(self, engine: str, progress: Callable[[str], None] | None) -> Session:
        session = self._sessions.get(engine)
        if engine != "auto":
            if session is None:
                session = self._sessions[engine] = self.session(engine, progress=progress)
            return session
        if session is None or session.is_spent:
            # After as much time in runs as opening took, ask again which engine would have been the quickest.
            runs = 2 * session.runs if session else 1
            newer = self.session(engine, runs=runs, progress=progress)
            if session is not None:
                newer.continue_from(session)
                session.close()
            session = self._sessions[engine] = newer
        return session


class Session:
    """An open simulation of an accelerator; a context manager.  Made by `Accelerator.session`.

    Attributes
    ----------
    runs : int
        Runs so far.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        engine: str,
        *,
        runs: int,
        vcd: str | PathLike[str] | None,
        progress: Callable[[str], None] | None,
    ) -> None:
        self.runs = 0
        self._accelerator = accelerator
        self._run_seconds = 0.0
        started = time.perf_counter()
        self._simulation = Runner(
            accelerator.design,
            engine,
            component=accelerator.top,
            runs=runs,
            vcd=None if vcd is None else str(vcd),
            progress=progress,
        )
        self._open_seconds = time.perf_counter() - started

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the simulation."""
        self._simulation.close()

    def continue_from(self, other: Session) -> None:
        """Take over the runs of another session and what its memories keep."""
        self.runs = other.runs
        self._simulation.restore(other._simulation.kept())

    @property
    def engine(self) -> str:
        """Name of the engine that runs."""
        return self._simulation.engine

    @property
    def is_spent(self) -> bool:
        """Whether the runs have taken more time than opening the simulation."""
        return self._run_seconds > self._open_seconds

    def run(self, *inputs: Any) -> SimulationResult:
        """Run once; see `Accelerator.simulate`."""
        return self.run_bound(self._accelerator._bind(inputs))

    def run_bound(self, named: Mapping[str, np.ndarray]) -> SimulationResult:
        """Run once on input buffers by name."""
        started = time.perf_counter()
        run = self._simulation.run(named, self._accelerator.captured.var_vals)
        return self._result(run, time.perf_counter() - started)

    def run_batch(self, inputs: Iterable[Any]) -> list[SimulationResult]:
        """Run many inputs, several at once in one model where that is faster; results are those of `run`.

        Parameters
        ----------
        inputs : iterable
            One item for each run: an array, or a tuple of them for a model of several inputs.

        Raises
        ------
        InputError
            For a missing input, or one of another shape or dtype.
        """
        bound = [self._accelerator._bind(x if isinstance(x, tuple) else (x,)) for x in inputs]
        started = time.perf_counter()
        runs = self._simulation.run_batch(bound, self._accelerator.captured.var_vals)
        each = (time.perf_counter() - started) / max(1, len(runs))
        return [self._result(run, each) for run in runs]

    def _result(self, run: Run, seconds: float) -> SimulationResult:
        self.runs += 1
        self._run_seconds += seconds
        cycles = Cycles(run.load, run.compute, run.readback, run.kernels)
        output = self._accelerator.captured.restore(list(run.outputs))
        return SimulationResult(output, cycles, self.engine, seconds)


def compile_model_to_hardware(
    model: Callable[..., Any],
    *example_inputs: Any,
    weights: str | None = None,
    multipliers: int | None = None,
    options: CompileOptions | None = None,
    name: str | None = None,
    part: str | None = None,
    **unknown: Any,
) -> Accelerator:
    """Compile a tinygrad model to hardware.

    Parameters
    ----------
    model : callable
        A function of Tensors, or an object with ``__call__``; its weights are found by themselves.  Of a model from
        `tg2hdl.quantize` the inputs may be float arrays, which the host quantizes; outputs are integers.
    example_inputs : arrays or tensors
        One per parameter; they give the shapes and dtypes.
    weights : {"rom", "loadable"}, optional
        Weights are contents of read-only memories (the default), or are written through ports.
    multipliers : int, optional
        Hardware multipliers, 1 unless given; the kernels share them.
    options : CompileOptions, optional
        Everything else.  Only ``float_order="relaxed"`` changes a number.
    name : str, optional
        Name of the design; that of the model otherwise.
    part : str, optional
        FPGA part that the weights must fit; said before anything is planned.
    unknown
        Refused by name.

    Raises
    ------
    InputError
        For an example input that is missing or unfit, or an unknown option.
    UnsupportedError
        For an op or dtype without hardware; it is named.
    CapacityError
        When the weights alone are more than the memory of `part`.

    Examples
    --------
    >>> import numpy as np
    >>> import tg2hdl
    >>> acc = tg2hdl.compile(lambda x: (x * 2).relu(), np.zeros(4, np.int32))
    >>> acc.golden(np.array([-1, 0, 1, 2], np.int32))
    array([0, 0, 2, 4], dtype=int32)
    """
    if unknown:
        raise _unknown_option(next(iter(unknown)))
    options = CompileOptions() if options is None else options
    if not isinstance(options, CompileOptions):
        raise InputError(
            f"options is of type {type(options).__name__}",
            hint="pass tg2hdl.CompileOptions(...), or leave it out",
        )
    given: dict[str, Any] = {"weights": weights, "multipliers": multipliers}
    options = replace(options, **{k: v for k, v in given.items() if v is not None})
    prepare = model.quantize_input if isinstance(model, QuantizedModel) else None
    if prepare is not None:
        example_inputs = prepare(*example_inputs)
    captured = capture(model, *example_inputs, name=name)
    if part is not None:
        from tg2hdl_synth import check_weights_fit

        check_weights_fit(captured.program, part)
    return Accelerator(captured, compile_program(captured.program, options), prepare)


def _unknown_option(name: str) -> InputError:
    further = [field.name for field in fields(CompileOptions) if field.name not in ("weights", "multipliers")]
    return InputError(
        f"tg2hdl.compile has no option {name!r}",
        notes=(f"options=tg2hdl.CompileOptions(...) takes {', '.join(further)}",),
        hint=f"pass options=tg2hdl.CompileOptions({name}=...)"
        if name in further
        else "choose one of: weights, multipliers, options, name, part",
    )
