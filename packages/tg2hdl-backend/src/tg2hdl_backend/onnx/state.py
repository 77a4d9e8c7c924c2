"""State of an ONNX file: outputs that are inputs of the next run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto
from tinygrad import Tensor

from tg2hdl_backend.onnx.tensors import tensor_of
from tg2hdl_backend.tinygrad_adapter.model_inputs import TensorSpec
from tg2hdl_ir import InputError

__all__ = ["FileState", "state_pairs"]


def state_pairs(graph: GraphProto, given: Any, fixed: Mapping[str, Any], file: Path) -> dict[str, str]:
    """Outputs that are state, with the inputs that get them in the next run.

    Parameters
    ----------
    graph : GraphProto
    given
        The user's ``state=``.
    fixed : mapping of str to object
        Inputs that have values.
    file : Path
        Named in errors.

    Raises
    ------
    InputError
        For anything but a mapping of outputs to inputs of the graph, each once.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(
            f"state is of type {type(given).__name__}",
            hint="give a dict of outputs to inputs: state={'stateN': 'state'}",
        )
    outputs, inputs = [o.name for o in graph.output], [i.name for i in graph.input]
    for kind, names, known in (("output", given.keys(), outputs), ("input", given.values(), inputs)):
        for name in names:
            if name not in known:
                raise InputError(
                    f"{file.name} has no {kind} {name!r} to keep as state",
                    where=str(file),
                    hint=f"its {kind}s are {', '.join(known) or 'none'}",
                )
    taken = list(given.values())
    for name in taken:
        if taken.count(name) > 1 or name in fixed:
            reason = "is the state of two outputs" if taken.count(name) > 1 else "is fixed and state"
            raise InputError(
                f"input {name!r} of {file.name} {reason}", where=str(file), hint="give one of them"
            )
    if len(given) == len(outputs):
        raise InputError(
            f"all outputs of {file.name} are state",
            where=str(file),
            hint="leave one output, which the host reads",
        )
    return dict(given)


class FileState:
    """Tensors that keep outputs of a run for the next one, by the names of their inputs.

    Parameters
    ----------
    pairs : mapping of str to str
        Outputs and their inputs.
    specs : sequence of TensorSpec
        Of the inputs.
    first : mapping of str to ndarray
        First contents of inputs; zeros for the others.
    """

    def __init__(
        self, pairs: Mapping[str, str], specs: Sequence[TensorSpec], first: Mapping[str, Any], file: str
    ) -> None:
        self.pairs, self._file = pairs, file
        self.specs = {spec.name: spec for spec in specs}
        self.tensors: dict[str, Tensor] = {
            name: tensor_of(np.asarray(first.get(name, spec.zeros()))).contiguous().realize()
            for name, spec in self.specs.items()
        }

    def check(self, results: Mapping[str, Tensor]) -> None:
        """Refuse an output that its input cannot hold.

        Raises
        ------
        InputError
            For another shape or type.
        """
        for output, name in self.pairs.items():
            new, kept = results[output], self.tensors[name]
            if new.shape != kept.shape or new.dtype != kept.dtype:
                raise InputError(
                    f"output {output!r} of {self._file} has shape {new.shape} and type {new.dtype}, its state {name!r} "
                    f"{kept.shape} and {kept.dtype}",
                    where=self._file,
                    hint="state is an output of the shape and type of its input",
                )

    def store(self, results: Mapping[str, Tensor]) -> None:
        """Keep the outputs of this run."""
        new = {name: results[output].contiguous() for output, name in self.pairs.items()}
        for name, value in new.items():
            self.tensors[name].assign(value)
