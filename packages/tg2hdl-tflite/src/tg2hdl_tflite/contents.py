"""The tensors that a model keeps: constants of its operators, variables, and tensors that a run gathers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor

from tg2hdl_ir import UnsupportedError
from tg2hdl_tflite.file import File, TensorRecord, TfliteGraph
from tg2hdl_tflite.value import TfliteValue, dtype_of

__all__ = ["Contents"]

Array = npt.NDArray[Any]
Refuse = Callable[[str, str], UnsupportedError]
"""Makes an error of a message and a hint."""


def _names(graph: TfliteGraph) -> dict[int, str]:
    """Names of variables by the tensors of their handles."""
    return {
        o.outputs[0]: (o.options.get("SharedName") or b"").decode(errors="replace")
        for o in graph.operators
        if o.name == "VAR_HANDLE" and o.outputs
    }


class Contents:
    """Constants and variables of a model.

    A handle of a variable is found again by its shared name.  First contents are constants that the graph of CALL_ONCE
    assigns.

    Attributes
    ----------
    rounding : str
        Whose arithmetic codes have, see `TfliteModel`.
    constants : dict of str to Tensor
        By the name of the layer and a word after a dot; the same ones in each run.
    variables : dict of str to Tensor
        By name; each run reads them and writes them in place.
    notes : list of str
        A line for each part that the last run computed in another way than the file says.
    refused : list of UnsupportedError
        Refusals of the last run, in the order of the operators.
    calls : int
        Runs of other graphs in the last run.
    """

    def __init__(self, file: File, main: int, rounding: str) -> None:
        self._file, self._main, self.rounding = file, main, rounding
        self.notes: list[str] = []
        self.refused: list[UnsupportedError] = []
        self._handles: dict[TfliteGraph, dict[int, str]] = {}
        self._scope: tuple[tuple[int, int], ...] = ()
        self.calls = 0
        self.constants: dict[str, Tensor] = {}
        self.variables: dict[str, Tensor] = {}
        self._made: dict[tuple[tuple[tuple[int, int], ...], int, str], Any] = {}
        self._first: dict[str, Array] = {}
        self._now: dict[str, TfliteValue] = {}
        self._states: dict[TensorRecord, str] = {}
        for operator in file.graphs[main].operators:
            if operator.name == "CALL_ONCE":
                self._initialize(int(operator.options.get("InitSubgraphIndex", 0)))

    def once(self, operator: int, key: str, make: Callable[[], Any]) -> Any:
        """A part of an operator, made when it is first asked for.

        Parameters
        ----------
        operator : int
            Index in its graph.
        key : str
            Unique within the operator.
        make : callable
            Makes the part, once for each call of the graph.
        """
        place = self._scope, operator, key
        if place not in self._made:
            self._made[place] = make()
        return self._made[place]

    def constant(self, operator: int, label: str, key: str, make: Callable[[], Tensor]) -> Tensor:
        """A constant of an operator by a name that is new.

        Parameters
        ----------
        operator : int
            Index in its graph.
        label : str
            Of the layer.
        key : str
            Unique within the operator; the name is ``label.key``, with a number where another layer has this
            name.
        make : callable
        """

        def named() -> Tensor:
            name, count = f"{label}.{key}", 2
            while name in self.constants:
                name, count = f"{label}_{count}.{key}", count + 1
            self.constants[name] = make()
            return self.constants[name]

        found: Tensor = self.once(operator, f"tensor {key}", named)
        return found

    def _initialize(self, number: int) -> None:
        graph = self.graph(number)
        if graph is None:
            return
        names = _names(graph)
        for operator in graph.operators:
            if operator.name != "ASSIGN_VARIABLE" or len(operator.inputs) != 2:
                continue
            record = graph.tensors[operator.inputs[1]]
            if record.data is not None and operator.inputs[0] in names:
                self._first[names[operator.inputs[0]]] = record.data

    def begin(self) -> None:
        """Forget the run before."""
        self._now = {}
        self.notes, self.refused = [], []
        self.calls = 0

    @property
    def depth(self) -> int:
        """Nesting depth of the graph whose operators are being built; 0 for the main one."""
        return len(self._scope)

    def graph(self, number: int) -> TfliteGraph | None:
        """A graph of the file other than the one that is compiled; None where there is none of the number."""
        is_other = 0 <= number < len(self._file.graphs) and number != self._main
        return self._file.graphs[number] if is_other else None

    @contextmanager
    def scope(self, operator: int, call: int) -> Iterator[None]:
        """While operators of another graph are built, whose constants are their own.

        Parameters
        ----------
        operator : int
            Index of the operator that calls another graph.
        call : int
            Which of its calls.
        """
        outside = self._scope
        self._scope = (*outside, (operator, call))
        self.calls += 1
        try:
            yield
        finally:
            self._scope = outside

    def handles(self, graph: TfliteGraph) -> dict[int, str]:
        """Names of variables by the tensors of their handles."""
        return self._handles.setdefault(graph, _names(graph))

    def _tensor(self, refuse: Refuse, name: str, record: TensorRecord) -> Tensor:
        if name not in self._first:
            raise refuse(
                f"variable {name!r} has no first contents", "initialize it by a constant, with CALL_ONCE"
            )
        first, dtype = self._first[name], dtype_of(record.kind)
        if dtype is None or first.shape != record.shape or first.dtype != record.numpy:
            raise refuse(
                f"variable {name!r} is {first.dtype} of shape {first.shape}, not {record.kind} {record.shape}",
                "export the model again",
            )
        if name not in self.variables:
            self.variables[name] = Tensor(np.ascontiguousarray(first), dtype=dtype).realize()
        return self.variables[name]

    def read(self, refuse: Refuse, name: str, record: TensorRecord) -> TfliteValue:
        """Contents of a variable at this place of the program.

        Parameters
        ----------
        refuse : Refuse
            Makes the error for a variable without first contents, or of another type or shape.
        name : str
            Of the variable.
        record : TensorRecord
            The tensor that is read.
        """
        if name in self._now:
            return TfliteValue(record, self._now[name].tensor, None, self._now[name].bounds)
        return TfliteValue(record, self._tensor(refuse, name, record))

    def assign(self, refuse: Refuse, name: str, value: TfliteValue) -> None:
        """New contents of a variable, for later operators and for the next run.

        Parameters
        ----------
        refuse : Refuse
            Makes the error for a variable without first contents, or of another type or shape.
        name : str
            Of the variable.
        value : TfliteValue
        """
        self._tensor(refuse, name, value.record)
        self._now[name] = value

    def state(self, refuse: Refuse, record: TensorRecord) -> TfliteValue:
        """Contents of a variable tensor at this place of the program; at first all are the zero point.

        Parameters
        ----------
        refuse : Refuse
            Makes the error for another type or shape than the variable has.
        record : TensorRecord
            A variable tensor of the file.
        """
        if record not in self._states:
            name, count = record.label, 2
            while name in self._first:
                name, count = f"{record.label}_{count}", count + 1
            self._states[record] = name
            self._first[name] = np.full(record.shape, record.zero[0] if record.zero.size else 0, record.numpy)
        return self.read(refuse, self._states[record], record)

    def assign_state(self, record: TensorRecord, value: TfliteValue) -> None:
        """New contents of a variable tensor, for later operators and for the next run.

        Parameters
        ----------
        record : TensorRecord
            A variable tensor that was read with `state`.
        value : TfliteValue
        """
        self._now[self._states[record]] = value

    def store(self) -> None:
        """Write the new contents at the end of a run."""
        for name, value in self._now.items():
            self.variables[name].assign(value.tensor.contiguous())
