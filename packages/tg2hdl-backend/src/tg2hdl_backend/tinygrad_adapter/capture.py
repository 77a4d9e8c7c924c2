"""Capture a whole tinygrad model as a program of kernels, without running any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.uop.ops import UOp

from tg2hdl_backend.tinygrad_adapter.fold_constants import FoldedProgram, fold_constants
from tg2hdl_backend.tinygrad_adapter.initial_state import with_initial_state
from tg2hdl_backend.tinygrad_adapter.model_inputs import (
    ProgramTensor,
    TensorSpec,
    bound_values,
    model_name,
    spec_of,
)
from tg2hdl_backend.tinygrad_adapter.pending import with_pending_updates
from tg2hdl_backend.tinygrad_adapter.program_builder import ProgramBuilder
from tg2hdl_backend.tinygrad_adapter.trace import called_function, trace
from tg2hdl_ir import DType, InputError, IRVariable, ProgramIR
from tg2hdl_ir.errors import model_place
from tg2hdl_ir.turns import compiles

__all__ = ["CapturedProgram", "OutputSlot", "capture", "describe_outputs", "substitute"]


@dataclass(frozen=True, eq=False)
class CapturedProgram:
    """A model as a program.

    Parameters
    ----------
    program : ProgramIR
    inputs, outputs : tuple of ProgramTensor
        In the order of the model's parameters, and flat in the order of its results.
    kernel_uops : tuple of tuple of UOp
        Linearized UOps of each call of the program; empty for a copy.
    var_vals : dict
        Values that run-time variables were bound to in the example.
    structure : Any
        Structure of the model's result, with the number of the output in place of each tensor.
    preparation : ProgramIR, optional
        Computes those weights of `program` that depend on other tensors of the model, from these.
    frozen : frozenset of str
        Weights of the model that cannot change without another capture.
    model : callable, optional
        The captured program.
    arguments : tuple of UOp or None
        Bound Variables among the model's arguments, and None in the place of each array.
    shapes : dict of str to tuple of int
        Shapes of the tensors that the model holds, by name.
    """

    program: ProgramIR
    inputs: tuple[ProgramTensor, ...]
    outputs: tuple[ProgramTensor, ...]
    kernel_uops: tuple[tuple[UOp, ...], ...]
    var_vals: dict[str, int] = field(default_factory=dict)
    structure: Any = 0
    preparation: ProgramIR | None = None
    frozen: frozenset[str] = frozenset()
    model: Callable[..., Any] | None = None
    arguments: tuple[UOp | None, ...] = ()
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, IRVariable | None]:
        """Run-time variables by name, with their ranges; None for one that the model binds and no kernel uses."""
        bound = [u.unbind()[0] for u in self.arguments if u is not None]
        given = {v.expr: IRVariable(v.expr, int(v.vmin), int(v.vmax)) for v in bound}
        used = {v.name: v for call in self.program.calls for v in call.host_variables}
        return {**dict.fromkeys(self.var_vals), **given, **used}

    def values(self, given: Mapping[str, Any]) -> dict[str, int]:
        """Values of all run-time variables, those that are not given as in the example.

        Raises
        ------
        InputError
            For an unknown name, and a value out of the range of its variable.
        """
        variables = self.variables
        for name, value in given.items():
            if name not in variables:
                raise InputError(
                    f"the model has no variable {name!r}",
                    where=model_place(self.program.name),
                    hint=f"its variables are {', '.join(variables)}"
                    if variables
                    else "bind one where the model is compiled: tinygrad.Variable(NAME, LOW, HIGH).bind(VALUE)",
                )
            _check_value(name, value, variables[name], model_place(self.program.name))
        return self.var_vals | {name: int(value) for name, value in given.items()}

    def in_place(self, inputs: Sequence[Any], values: Mapping[str, int]) -> list[Any]:
        """Arguments of the model: inputs, and Variables that are bound to other values.

        Parameters
        ----------
        inputs : sequence of arrays
            In the order of `inputs`.
        values : mapping of str to int
            Of the run-time variables, by name.

        Raises
        ------
        InputError
            For another value of a Variable that is not an argument, which the model binds itself.
        """
        self._check_count(inputs)
        arrays = iter(inputs)
        own = [None if u is None else u.unbind()[0] for u in self.arguments]
        names = {v.expr for v in own if v is not None}
        for name, value in values.items():
            if name not in names and value != self.var_vals.get(name):
                raise InputError(
                    f"the model binds {name!r} to {self.var_vals.get(name)} itself",
                    where=model_place(self.program.name),
                    hint="make the bound Variable an argument of the model",
                )
        return [next(arrays) if v is None else v.bind(values[v.expr]) for v in own]

    def bind(self, *values: Any) -> dict[str, npt.NDArray[Any]]:
        """Flat contents of the input buffers, by name.

        Raises
        ------
        InputError
            For a missing input, or one of another shape or dtype.
        """
        self._check_count(values)
        buffers = self.program.buffers
        return {
            buffers[s.buffer].name: s.check(v).reshape(-1) for s, v in zip(self.inputs, values, strict=True)
        }

    def _check_count(self, inputs: Sequence[Any]) -> None:
        if len(inputs) != len(self.inputs):
            names = ", ".join(f"{s.name} {s.shape} {s.dtype}" for s in self.inputs)
            raise InputError(
                f"{len(inputs)} inputs for a model of {len(self.inputs)}",
                where=model_place(self.program.name),
                hint=f"pass {names or 'none'}",
            )

    def restore(self, arrays: list[npt.NDArray[Any]]) -> Any:
        """Arrays of the outputs in the structure that the model returned."""
        return self.substituted([a.reshape(s.shape) for a, s in zip(arrays, self.outputs, strict=True)])

    def substituted(self, values: Sequence[Any]) -> Any:
        """Anything in place of the outputs, in the structure that the model returned."""
        return substitute(self.structure, values)

    def flat(self, result: Any) -> list[npt.NDArray[Any]]:
        """Arrays in a result of the model's structure, in the order of the outputs."""
        found: dict[int, npt.NDArray[Any]] = {}
        _collect(self.structure, result, found)
        return [found[n] for n in range(len(self.outputs))]


@compiles
def capture(
    model: Callable[..., Any], *example_inputs: Any, name: str | None = None, fold: bool = True
) -> CapturedProgram:
    """Capture a model: its kernels, inputs, weights, temporaries and outputs.

    Parameters
    ----------
    model : callable
        A function or an object with ``__call__``; a TinyJit is captured through the function inside.
    example_inputs : array, Tensor or bound Variable
        Give the shapes and dtypes; their contents are not looked at.
    name : str, optional
        Name of the program; that of the model otherwise.
    fold : bool
        Compute results that depend on weights only at compile time.  Without it such kernels run each time, and
        every weight buffer has the contents of the model's tensor.

    Raises
    ------
    InputError
        For an example that is missing or that the model refuses, or a model that looks at data.
    UnsupportedError
        For a construct without hardware.
    """
    function, names = called_function(model, example_inputs)
    # A model from a file has names of its own, which need not be Python's.
    names = getattr(function, "input_names", names)
    examples = [
        e if isinstance(e, UOp) else spec_of(n, e) for n, e in zip(names, example_inputs, strict=True)
    ]
    traced = trace(model, examples)
    specs = [e for e in examples if isinstance(e, TensorSpec)]
    builder = ProgramBuilder(traced.origins)
    for spec, uop in zip(specs, traced.input_uops, strict=True):
        builder.add_input(uop, spec)
    builder.add_calls(traced.calls, traced.once)
    builder.name_weights(traced.weight_uops)
    structure, outputs = describe_outputs(
        traced.result, traced.outputs, getattr(function, "output_names", None)
    )
    built = builder.build(name or model_name(function), outputs, traced.output_uops)
    updated, uops = with_pending_updates(built.program, built.uops, built.once)
    started, uops = with_initial_state(updated, uops, traced.weight_uops)
    folded = fold_constants(started, uops) if fold else FoldedProgram(started, uops)
    program = folded.program
    index = {b.name: n for n, b in enumerate(program.buffers)}
    inputs = [index[built.program.buffers[n].name] for n in built.inputs]
    return CapturedProgram(
        program,
        _in_program(specs, inputs),
        _in_program(outputs, program.outputs),
        folded.origins,
        bound_values(examples) | traced.var_vals,
        structure,
        folded.preparation,
        folded.frozen,
        model,
        tuple(e if isinstance(e, UOp) else None for e in examples),
        traced.shapes,
    )


def _check_value(name: str, value: Any, variable: IRVariable | None, where: str) -> None:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(
            f"variable {name!r} is given {value!r}", where=where, hint=f"give an integer, such as {name}=1"
        )
    if variable is not None and not variable.low <= value <= variable.high:
        raise InputError(
            f"variable {name!r} is {value}, out of its range",
            where=where,
            hint=f"give {variable.low} to {variable.high}, or compile with a Variable of another range",
        )


def _in_program(specs: Sequence[TensorSpec], buffers: Sequence[int]) -> tuple[ProgramTensor, ...]:
    return tuple(ProgramTensor(s.name, s.shape, s.dtype, b) for s, b in zip(specs, buffers, strict=True))


def describe_outputs(
    result: Any, tensors: list[Tensor], names: Sequence[str] | None = None
) -> tuple[Any, list[TensorSpec]]:
    """Structure of a model's result, with a slot for each tensor, and the shapes and dtypes of these.

    Parameters
    ----------
    result
        Tensors, or dicts, lists and tuples of them.
    tensors : list of Tensor
        Those of the result, in order.
    names : sequence of str, optional
        Of the outputs; by their places in the result unless given.
    """
    labels: list[str] = []

    def walk(item: Any, label: str) -> Any:
        if isinstance(item, Tensor):
            labels.append(label)
            return OutputSlot(len(labels) - 1)
        if isinstance(item, dict):
            return {k: walk(v, f"{label}_{k}") for k, v in item.items()}
        if isinstance(item, tuple) and hasattr(item, "_fields"):
            return type(item)(*(walk(v, f"{label}_{f}") for f, v in zip(item._fields, item, strict=True)))
        if isinstance(item, list | tuple):
            return type(item)(walk(v, f"{label}{n}") for n, v in enumerate(item))
        return item

    structure = walk(result, "output")
    return structure, [
        TensorSpec(label, tuple(int(s) for s in t.shape), DType.from_tinygrad(t.dtype))
        for label, t in zip(names or labels, tensors, strict=True)
    ]


@dataclass(frozen=True)
class OutputSlot:
    """The place of an output in the structure that a model returned."""

    number: int


def substitute(structure: Any, arrays: Sequence[Any]) -> Any:
    """The structure that a model returned, with values in its slots.

    Parameters
    ----------
    structure : Any
        Containers whose slots have numbers.
    arrays : sequence
        The values, by number of the slot.
    """
    if isinstance(structure, OutputSlot):
        return arrays[structure.number]
    if isinstance(structure, dict):
        return {k: substitute(v, arrays) for k, v in structure.items()}
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(substitute(v, arrays) for v in structure))
    if isinstance(structure, list | tuple):
        return type(structure)(substitute(v, arrays) for v in structure)
    return structure


def _collect(structure: Any, result: Any, found: dict[int, npt.NDArray[Any]]) -> None:
    if isinstance(structure, OutputSlot):
        found[structure.number] = result
    elif isinstance(structure, dict):
        for key, inner in structure.items():
            _collect(inner, result[key], found)
    elif isinstance(structure, list | tuple):
        for inner, part in zip(structure, result, strict=True):
            _collect(inner, part, found)
