"""A compiled model: its plan, its simulation, its golden model and its memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from os import PathLike
from typing import Any

import numpy as np

from tg2hdl.generation import generated
from tg2hdl.loadable_weights import check_weights, loaded_buffers
from tg2hdl.model_hardware import ModelHardware
from tg2hdl.model_tensor import ModelTensor, model_tensors
from tg2hdl.progress import shows_progress, step
from tg2hdl.quantized_model import QuantizedModel
from tg2hdl.results import SimulationResult
from tg2hdl.session import OpenSessions, Session, SimulatedModel
from tg2hdl.state import ModelState, StateTensor, state_tensors
from tg2hdl_backend import CapturedProgram, TensorSpec, own_result, reference_device
from tg2hdl_backend.agreement import Agreement, agreement
from tg2hdl_backend.arguments import in_input_order
from tg2hdl_backend.tinygrad_adapter.model_inputs import arrays_of, bound_values
from tg2hdl_ir import evaluate_program
from tg2hdl_ir.turns import in_turn
from tg2hdl_lower.lanes.candidates import leaf_multiplications
from tg2hdl_top import Design

__all__ = ["CompiledModel"]


class CompiledModel(ModelHardware):
    """A model with everything that was decided about its hardware: it runs, simulated or in software.

    Several threads may call it: their runs follow one another.

    Attributes
    ----------
    captured : CapturedProgram
        The model as kernels over buffers.
    design : Design
        Everything that was decided about the hardware.
    gives_codes : bool
        Whether outputs of a quantized model are codes unless a call says otherwise: False for a file, which declares
        the types of its outputs.
    """

    def __init__(self, captured: CapturedProgram, design: Design, codes: bool = True) -> None:
        super().__init__(captured, design)
        model = captured.model
        self._model = model if isinstance(model, QuantizedModel) else None
        self.gives_codes = codes
        self._sessions = OpenSessions()
        self._state: dict[str, np.ndarray] = {}
        self._written: dict[str, np.ndarray] = {}
        self._last: Session | None = None
        self._weights: dict[str, np.ndarray] = {}
        self._loaded: dict[str, np.ndarray] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {len(self.kernels)} kernels, {self.predicted_cycles} cycles>"

    @property
    def inputs(self) -> tuple[ModelTensor, ...]:
        """The inputs: names, shapes and types, and the codes of a quantized model's values."""
        return self._border(self.captured.inputs, "inputs")

    @property
    def outputs(self) -> tuple[ModelTensor, ...]:
        """The outputs, flat in the order of the model's results: their values and codes."""
        return self._border(self.captured.outputs, "outputs")

    def _border(self, specs: Sequence[TensorSpec], kind: str) -> tuple[ModelTensor, ...]:
        if self._model is None:
            return tuple(ModelTensor(s.name, s.shape, s.dtype, s.dtype) for s in specs)
        graph = self._model.quantized
        types = graph.input_types if kind == "inputs" else graph.output_types
        return model_tensors(specs, types, getattr(graph, kind))

    @property
    def in_float(self) -> tuple[str, ...]:
        """Operations of a quantized model that are computed in float, with the reason where one is known."""
        report = None if self._model is None else self._model.report
        return tuple(getattr(report, "in_float", ())) or tuple(getattr(self.captured.model, "in_float", ()))

    # Running

    @in_turn
    def simulate(
        self,
        *inputs: Any,
        engine: str = "auto",
        vcd: str | PathLike[str] | None = None,
        progress: Callable[[str], None] | None = None,
        codes: bool | None = None,
        **variables: int,
    ) -> SimulationResult:
        """Run on simulated hardware, cycle by cycle.

        The simulation stays open for further calls: the model's state continues from the run
        before, until `reset`.  ``engine="auto"`` selects the engine that finishes first, given the cycles simulated so
        far: a loop over many inputs switches to a compiled engine.

        Parameters
        ----------
        inputs : arrays or tensors
            One per input of the model, of the shape and dtype it was compiled for; or a dict of them by name.  A bound
            Variable may be among them where the model takes one, and its value in the dict.
        engine : str
            ``auto``, ``cxxrtl``, ``amaranth`` or another registered engine.
        vcd : path, optional
            Waveform of this run.
        progress : callable, optional
            Called with a message before each slow step.
        codes : bool, optional
            Whether the outputs of a quantized model are codes or values; as `gives_codes` unless given.  The result has
            the codes in any case.
        variables : int
            Values of run-time variables by name, such as ``pos=7``; the others have those of the example inputs.

        Raises
        ------
        InputError
            For a missing input, one of another shape or dtype, or a variable that is unknown or out of its range.
        ToolMissingError
            When the engine cannot run here.
        """
        named, values = self.bind(*inputs), self.values(*inputs, **variables)
        with step(f"simulating {self.name}") as say:
            if vcd is not None:
                with self.session(engine, vcd=vcd, progress=progress or say) as session:
                    return session.run_bound(named, values, codes)
            open_session = partial(self.session, progress=progress or say)
            self._last = self._sessions.get(open_session, engine)
            return self._last.run_bound(named, values, codes)

    @in_turn
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

    @in_turn
    def session(
        self,
        engine: str = "auto",
        *,
        runs: int = 1,
        vcd: str | PathLike[str] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Session:
        """Open a simulation for about `runs` runs, which decides the engine when it is ``auto``.

        Parameters
        ----------
        engine : str, default "auto"
            Name, or ``"auto"`` for the one that is predicted to finish first.
        runs : int, default 1
            Expected number.
        vcd : str or PathLike, optional
            Waveform file, VCD or FST.
        progress : callable, optional
            Called with one line of text for each step.

        Raises
        ------
        SimulationError
            For an unknown engine, or one whose tools are missing.
        """
        top = self._simulated_top
        model = SimulatedModel(
            self.captured,
            self.design,
            top,
            self.bind,
            self.values,
            self.state.tensors,
            self.restored,
            self._loops,
        )
        session = Session(model, engine, runs=runs, vcd=vcd, progress=progress)
        for name, array in self._written.items():
            session.state[name] = array
        return session

    @in_turn
    @shows_progress("computing the golden result of")
    def golden(self, *inputs: Any, codes: bool | None = None, **variables: int) -> Any:
        """Bit-exact result in software, in the model's shape and dtype.

        The model's state continues from the run before, as it does in `simulate`; see `reset`.

        Parameters
        ----------
        inputs : arrays or tensors
            As for `simulate`.
        codes : bool, optional
            Whether the outputs of a quantized model are codes or values; as `gives_codes` unless given.
        variables : int
            As for `simulate`.
        """
        program = self.design.program
        results = evaluate_program(
            program,
            self.bind(*inputs),
            self.values(*inputs, **variables),
            target=self.options.target,
            units=self.options.units,
            state=self._state,
        )
        self._last = None
        return self.restored([results[program.buffers[b].name] for b in program.outputs], codes)

    def generate(
        self,
        first: Any,
        *,
        stop: Any = None,
        limit: int | None = None,
        feedback: str | None = None,
        counter: str | None = None,
        start: int | None = None,
        engine: str = "auto",
    ) -> Iterator[Any]:
        """Results that are fed back: each output is the input of the next run, and a variable counts the runs.

        The model's state continues from the runs before; call `reset` to start over.  A design with a
        loop, compiled with ``CompileOptions(loop=True)``, starts the runs from the last of `first` on by itself.  It
        runs ahead of the results that are taken, at most as far as `stop` and `limit` say; otherwise the host starts
        each run.

        Parameters
        ----------
        first : array or sequence of arrays
            The first input; or several, such as the tokens of a prompt: results start with that of the last one.
        stop : array or number, optional
            The result whose output equals it is the last one.
        limit : int, optional
            Most results; may be left out where a counter ends.
        feedback : str, optional
            Name of the output; the only one of the shape and type of the input unless given.
        counter : str, optional
            Name of the run-time variable; the only one unless given.
        start : int, optional
            First value of the counter; its lowest unless given.
        engine : str
            As for `simulate`, or ``golden``.

        Returns
        -------
        iterator
            The model's results, run by run.

        Raises
        ------
        InputError
            When there is not one such input, output or variable, or nothing ends the runs.
        """
        is_golden = engine == "golden"

        def run(value: np.ndarray, values: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
            output = (
                self.golden(value, **values)
                if is_golden
                else self.simulate(value, engine=engine, **values).output
            )
            return output, self.captured.flat(output)

        @in_turn
        def loop(self: CompiledModel, *given: Any) -> list[tuple[Any, np.ndarray]]:
            self._last = self._sessions.get(self.session, engine)
            return self._last.run_loop(*given)

        return generated(
            self.captured,
            self.design,
            run,
            partial(loop, self) if self._loops and not is_golden else None,
            first,
            stop=stop,
            limit=limit,
            feedback=feedback,
            counter=counter,
            start=start,
        )

    @property
    def _loops(self) -> bool:
        """Whether the results of a loop on the chip are those of `generate`."""
        return self._model is None or self.gives_codes

    def reference(self, *inputs: Any, codes: bool | None = None, **variables: int) -> Any:
        """tinygrad's own result for the model, in the model's shape and dtype.

        The compiler is not involved, so this tests capture, contents of weights and kernels; the state
        of the model is that of its tensors.  It runs in tinygrad's interpreter, or compiled by clang where there is
        one and the model is large.  Inputs, `codes` and variables are those of `golden`.
        """
        return self.restored(self._own_codes(inputs, variables), codes)

    @shows_progress("running tinygrad's own")
    def _own_codes(self, inputs: Sequence[Any], variables: Mapping[str, int]) -> list[np.ndarray]:
        program = self.design.program
        leaves = (leaf for kernel in self.design.sources for leaf in leaf_multiplications(kernel))
        operations = sum(leaf.steps * (1 + leaf.products) for leaf in leaves)
        device = reference_device(operations, (b.dtype for b in program.buffers))
        assert self.captured.model is not None
        arguments = self.captured.in_place(self._arguments(inputs), self.values(*inputs, **variables))
        return own_result(self.captured.model, *arguments, device=device)

    def check(self, output: Any, *inputs: Any, **variables: int) -> tuple[Agreement, ...]:
        """Compare a result with tinygrad's own for the same inputs, see `reference`: one `Agreement` per output.

        Outputs of a quantized model may be its codes or its values.
        """
        compared = []
        for number, (array, own) in enumerate(
            zip(self.captured.flat(output), self._own_codes(inputs, variables), strict=True)
        ):
            spec, dtype, reference = self.captured.outputs[number], None, own.reshape(-1)
            if self._model is not None and np.asarray(array).dtype != spec.dtype.numpy():
                reference = self._model.quantized.dequantize(number, own.reshape(spec.shape))
                dtype = self._model.quantized.output_types[number]
            compared.append(agreement(array, reference.reshape(spec.shape), dtype or spec.dtype))
        return tuple(compared)

    def restored(self, arrays: Sequence[np.ndarray], codes: bool | None = None) -> Any:
        """The model's result, from the contents of the output buffers: codes, or the values that they stand for.

        Parameters
        ----------
        arrays : sequence of ndarray
            Flat or shaped, in the order of the outputs.
        codes : bool, optional
            Keep the integers of a quantized model; by default as it was compiled.
        """
        if self._model is not None and not (self.gives_codes if codes is None else codes):
            shaped = (a.reshape(s.shape) for a, s in zip(arrays, self.captured.outputs, strict=True))
            arrays = [self._model.quantized.dequantize(n, a) for n, a in enumerate(shaped)]
        return self.captured.restore(list(arrays))

    @cached_property
    def state(self) -> ModelState:
        """The state, which the model updates in place, by the names of its tensors: ``state["cache"]``.

        Reading gives the state after the last run of `simulate` or `golden`, or the first one; writing is for the next
        run of both.  See `ModelState`.
        """
        return ModelState(state_tensors(self.captured, self.design), self._read_state, self._write_state)

    @in_turn
    def _read_state(self, tensor: StateTensor) -> np.ndarray:
        if self._last is not None:
            return self._last.state[tensor.name].reshape(-1)
        return self._state.get(tensor.name, tensor.initial).reshape(-1)

    @in_turn
    def _write_state(self, tensor: StateTensor, array: np.ndarray) -> None:
        self._state[tensor.name] = array
        # A simulation that is opened later starts with it too.
        self._written[tensor.name] = array.reshape(tensor.shape)
        for session in self._sessions.by_engine.values():
            session.state[tensor.name] = self._written[tensor.name]

    @in_turn
    def reset(self) -> None:
        """Start over: `simulate` and `golden` forget the state of earlier runs."""
        self._state.clear()
        self._written.clear()
        self._last = None
        self._sessions.close()

    def bind(self, *inputs: Any) -> dict[str, np.ndarray]:
        """Arrays of the design's buffers for a run with these inputs, by name: flat, weights that were loaded included.

        Raises
        ------
        InputError
            For a missing input, or one of another shape or dtype.
        """
        return {**self._loaded, **self.captured.bind(*self._arguments(inputs))}

    def values(self, *inputs: Any, **variables: int) -> dict[str, int]:
        """Values of all run-time variables for a run: by name, bound among its inputs, or as in the example.

        Raises
        ------
        InputError
            For an unknown name, and a value out of the range of its variable.
        """
        found = bound_values(inputs)
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            found = {name: inputs[0][name] for name in self.captured.variables if name in inputs[0]}
        return self.captured.values({**found, **variables})

    def _arguments(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Inputs in their order without variables, those of a quantized model as codes."""
        inputs = arrays_of(inputs)
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            names = [spec.name for spec in self.captured.inputs]
            given = {name: x for name, x in inputs[0].items() if name not in self.captured.variables}
            inputs = in_input_order(given, names, "the dict of inputs")
        return inputs if self._model is None else self._model.quantize_input(*inputs)
