"""A device with the interface of ONNX Runtime's sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tg2hdl_host.connection import connect
from tg2hdl_host.device import Device
from tg2hdl_host.errors import UnfitInputError

__all__ = ["InferenceSession", "TensorInfo"]

_TYPES = {"float32": "float", "float64": "double"}
"""Names of ONNX Runtime that differ from those of numpy."""


class TensorInfo(NamedTuple):
    """An input or output of a session.

    Parameters
    ----------
    name : str
    shape : list of int
    type : str
        As ONNX Runtime names it, e.g. ``tensor(float)``.
    dtype : numpy.dtype
    """

    name: str
    shape: list[int]
    type: str
    dtype: np.dtype[Any]


def _info(name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> TensorInfo:
    return TensorInfo(name, list(shape), f"tensor({_TYPES.get(dtype.name, dtype.name)})", dtype)


class InferenceSession:
    """A device as ``onnxruntime.InferenceSession`` is used; a context manager.

    Run-time variables are inputs without dimensions, which may be left out where the folder has their values.  Inputs
    and outputs of a quantized file have the types that the file declares; outputs of a model from `tg2hdl.quantize`
    are integers, as in `Device`.

    Parameters
    ----------
    device : Device, str or path
        A device, or the name of one for `connect`.
    design : path, optional
        The folder for `connect`.
    options
        Those of `connect`.

    Attributes
    ----------
    device : Device
    """

    def __init__(
        self, device: Device | str | PathLike[str], design: str | PathLike[str] | None = None, **options: Any
    ) -> None:
        self.device = device if isinstance(device, Device) else connect(device, design, **options)
        self._names = _output_names(self.device)

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the device."""
        self.device.close()

    def get_inputs(self) -> list[TensorInfo]:
        """Inputs on which a result depends, and run-time variables."""
        described = self.device.description
        found = []
        for name in described.inputs:
            if name in described.buffers:
                shape, dtype = self.device.input_form(name)
                found.append(_info(name, shape, dtype))
        return found + [_info(name, (), np.dtype(np.int64)) for name in described.variables]

    def get_outputs(self) -> list[TensorInfo]:
        """Outputs in their order."""
        forms = self.device.output_forms
        return [_info(name, shape, dtype) for name, (shape, dtype) in zip(self._names, forms, strict=True)]

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: object = None
    ) -> list[npt.NDArray[Any]]:
        """Run once.

        Parameters
        ----------
        output_names : sequence of str, optional
            Outputs that are wanted, in this order; all unless given.
        input_feed : mapping of str to array
            Inputs by name.
        run_options : object, optional
            Ignored; there are none.

        Returns
        -------
        list of ndarray

        Raises
        ------
        UnfitInputError
            For an unknown or missing name, or an input of another shape or type.
        LinkError
            When a stage of the device does not answer.
        """
        wanted = self._names if output_names is None else output_names
        for name in wanted:
            if name not in self._names:
                raise UnfitInputError(
                    f"{name!r} is not an output of the design",
                    stage="read outputs",
                    hint=f"outputs are {', '.join(self._names)}",
                )
        variables = self.device.description.variables
        feed = {
            name: np.asarray(value).item() if name in variables and np.ndim(value) == 0 else value
            for name, value in input_feed.items()
        }
        for name in self.device.description.inputs:  # one that no result depends on is not in the hardware
            if name not in self.device.description.buffers:
                feed.setdefault(name, None)
        found = dict(zip(self._names, self.device.values(feed), strict=True))
        return [found[name] for name in wanted]


def _output_names(device: Device) -> list[str]:
    """Names of the outputs: keys of the dict that the model returns, else those of the design."""
    names = list(device.description.outputs)
    for key, number in _named(device.description.structure):
        names[number] = key
    return names if len(set(names)) == len(names) else [f"output_{n}" for n in range(len(names))]


def _named(structure: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for key, inner in structure.get("dict", ()):
        if "output" in inner:
            yield str(key), inner["output"]
