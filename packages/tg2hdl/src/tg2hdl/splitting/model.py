"""A model in parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl.accelerator import Accelerator
from tg2hdl.loaded_model import compile_options, load_model
from tg2hdl.progress import step
from tg2hdl.quantized_model import QuantizedModel
from tg2hdl.random_inputs import random_inputs
from tg2hdl.splitting.cut import ModelCut, choose_cuts, cut_program
from tg2hdl.splitting.system import StreamedRuns, simulate_chain
from tg2hdl_backend import CapturedProgram
from tg2hdl_ir import InputError, ProgramIR, UnsupportedError, ValidationError, evaluate_program
from tg2hdl_ir.errors import model_place
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.turns import compiles
from tg2hdl_lower import plan_kernel
from tg2hdl_top import CompileOptions, compile_program
from tg2hdl_top.ports.axi_stream import AxiStreamPort

__all__ = ["SplitModel", "split"]

Array = npt.NDArray[Any]


class SplitModel:
    """Accelerators in a row, for a device each: the results of one are the inputs of the next, by AXI4-Stream.

    Parameters
    ----------
    captured : CapturedProgram
        The whole model.
    parts : sequence of Accelerator
    cuts : sequence of ModelCut
        One fewer than parts.

    Attributes
    ----------
    captured : CapturedProgram
    parts : tuple of Accelerator
        Each is an ordinary one: ``parts[0].verilog("part1.v")``, ``parts[1].fits("ecp5-25k")``.
    cuts : tuple of ModelCut
    """

    def __init__(
        self, captured: CapturedProgram, parts: Sequence[Accelerator], cuts: Sequence[ModelCut]
    ) -> None:
        self.captured, self.parts, self.cuts = captured, tuple(parts), tuple(cuts)

    def __repr__(self) -> str:
        cycles = ", ".join(str(part.predicted_cycles) for part in self.parts)
        return f"<SplitModel {self.captured.program.name}: {len(self.parts)} parts of {cycles} cycles>"

    @property
    def links(self) -> list[list[tuple[str, int]]]:
        """Names and bits of the buffers that go through each cut."""
        buffers = self.captured.program.buffers
        return [
            [(buffers[n].name, buffers[n].depth * buffers[n].dtype.bit_width) for n in cut.buffers]
            for cut in self.cuts
        ]

    @property
    def intervals(self) -> list[int]:
        """Clock cycles from one start to the next of each part by itself; exact."""
        return [
            AxiStreamPort.run_interval(part.design.ports[0].serves, part.predicted_cycles)
            for part in self.parts
        ]

    @property
    def predicted_interval(self) -> int:
        """Clock cycles from one result to the next, where inputs come and results go without a pause; exact."""
        return max(self.intervals)

    def golden(self, *inputs: Any) -> Any:
        """Bit-exact result in software: the composition of the parts.

        Parameters
        ----------
        inputs : arrays
            Those of the model; floats of a `QuantizedModel` are quantized, and results are codes.
        """
        values = self._arguments(inputs)
        for part in self.parts[:-1]:
            result = part.golden(*values)
            values = list(result) if isinstance(result, tuple) else [result]
        return self.parts[-1].golden(*values)

    def reset(self) -> None:
        """Start over: the state of all parts has its first contents."""
        for part in self.parts:
            part.reset()

    def simulate(
        self,
        batch: Sequence[Any],
        *,
        engine: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> StreamedRuns:
        """Run inputs through all parts, simulated together cycle by cycle, each as soon as the parts take it.

        Parameters
        ----------
        batch : sequence
            Inputs, or tuples of them where the model has several; state begins with its first contents.
        engine : str
            Name of a simulation engine, or ``auto``.
        progress : callable, optional
            Called with a message before each slow step.
        """
        first = self.parts[0].captured
        runs = [first.bind(*self._arguments(x if isinstance(x, tuple) else (x,))) for x in batch]
        if not runs:
            raise InputError("the batch is empty", hint="give at least one input")
        limit = 2 * (len(runs) + len(self.parts)) * sum(self.intervals)
        designs = [part.design for part in self.parts]
        return simulate_chain(designs, runs, engine=engine, limit=limit, progress=progress)

    def _arguments(self, inputs: Sequence[Any]) -> Sequence[Any]:
        model = self.captured.model
        return model.quantize_input(*inputs) if isinstance(model, QuantizedModel) else inputs


@compiles
def split(
    model: Callable[..., Any] | str | PathLike[str],
    *example_inputs: Any,
    parts: int = 2,
    multipliers: int | None = None,
    options: CompileOptions | None = None,
    name: str | None = None,
    validate: str | None = None,
    **file_options: Any,
) -> SplitModel:
    """Compile a model in parts, for a device each.

    It is cut between kernels, where the fewest bits go from one device to the next among the cuts whose longest part
    takes at most a tenth more cycles than the shortest possible; cycles of kernels are those of their own plans.

    Parameters
    ----------
    model, example_inputs, name, validate, file_options
        As for `tg2hdl.compile`.
    parts : int
        Number of parts, at least 2.
    multipliers : int, optional
        Of each part.
    options : CompileOptions, optional
        Of each part; the port is ``axi-stream``, runs of a part do not overlap, and weights are on the chip.

    Returns
    -------
    SplitModel

    Raises
    ------
    UnsupportedError
        When there are not enough places for a cut, or for a model with run-time variables.
    InputError
        For other options.
    """
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 2:
        raise InputError(f"a model is split into {parts!r} parts", hint="give 2 or more")
    options = _checked(compile_options(options, multipliers=multipliers, validate=validate))
    loaded = load_model(model, example_inputs, name=name, validate=options.validate, **file_options)
    with step(f"splitting {loaded.label}") as say:
        say("kernels of the model")
        captured = loaded.capture()
        if captured.variables:
            raise UnsupportedError(
                f"the model has the run-time variable {next(iter(captured.variables))!r}, which all parts would need",
                where=model_place(captured.program.name),
                hint="make it an input",
            )
        say("places for a cut")
        cuts = choose_cuts(captured.program, _cycles(captured.program, options), parts)
        pieces = cut_program(captured, cuts)
        if options.validate != "off":
            _check_composition(captured, pieces, options)
        made = []
        for number, piece in enumerate(pieces):
            say(f"part {number + 1} of {parts}")
            made.append(Accelerator(piece, compile_program(piece.program, options)))
    return SplitModel(captured, made, cuts)


def _checked(options: CompileOptions) -> CompileOptions:
    ports = options.ports if options.ports != CompileOptions().ports else ("axi-stream",)
    if ports != ("axi-stream",):
        raise InputError(
            f"parts are joined by the port axi-stream, not {', '.join(ports)}", hint="leave the ports out"
        )
    if options.weights != "rom":
        raise InputError(
            f'weights="{options.weights}" is not for a model in parts', hint="ask for more parts instead"
        )
    if options.schedule == "dataflow":
        raise InputError(
            "the parts of a model are its dataflow: runs of one part do not overlap",
            hint="leave the schedule out, or ask for more parts",
        )
    return replace(options, ports=ports)


def _cycles(program: ProgramIR, options: CompileOptions) -> list[int]:
    """Cycles of each call by the plan of its kernel."""
    planned: dict[int, int] = {}
    for call in program.calls:
        if id(call.kernel) not in planned:
            planned[id(call.kernel)] = plan_kernel(canonicalize(call.kernel), options).cycles()
    return [planned[id(call.kernel)] for call in program.calls]


def _check_composition(
    captured: CapturedProgram, pieces: Sequence[CapturedProgram], options: CompileOptions
) -> None:
    """Compare the composition of the parts with the whole, two runs one after the other."""

    def run(piece: CapturedProgram, values: Sequence[Array], state: dict[str, Array]) -> list[Array]:
        program = piece.program
        found = evaluate_program(
            program, piece.bind(*values), {}, state=state, target=options.target, units=options.units
        )
        return [found[program.buffers[t.buffer].name].reshape(t.shape) for t in piece.outputs]

    whole: dict[str, Array] = {}
    states: list[dict[str, Array]] = [{} for _ in pieces]
    for seed in range(2):
        values: Sequence[Array] = random_inputs(captured.inputs, seed)
        expected = run(captured, values, whole)
        for piece, state in zip(pieces, states, strict=True):
            values = run(piece, values, state)
        for tensor, a, b in zip(captured.outputs, expected, values, strict=True):
            if not np.array_equal(a, b, equal_nan=tensor.dtype.is_float):
                raise ValidationError(
                    f"output {tensor.name!r} of the parts differs from that of the model",
                    where=model_place(captured.program.name),
                    hint="please report this with the model",
                )
