"""ONNX files as models, through tinygrad's OnnxRunner."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

from tg2hdl_backend.tinygrad_adapter.default_device import default_device
from tg2hdl_backend.tinygrad_adapter.model_inputs import TensorSpec, tinygrad_dtype
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError, Tg2hdlError, UnsupportedError

__all__ = ["OnnxModel"]


class OnnxModel:
    """An ONNX file that can be compiled like any other model.

    Parameters
    ----------
    path : path
        The file.
    batch : int, optional
        Size of a symbolic first dimension.
    dims : mapping of str to int, optional
        Sizes of symbolic dimensions by name.

    Attributes
    ----------
    inputs : tuple of TensorSpec
        Of the graph, with all sizes resolved.

    Raises
    ------
    InputError
        For a file that cannot be read, or a symbolic dimension without a size.
    UnsupportedError
        For an ONNX operator that tinygrad does not have.
    """

    def __init__(
        self, path: str | PathLike[str], *, batch: int | None = None, dims: Mapping[str, int] | None = None
    ) -> None:
        file = Path(path)
        if not file.is_file():
            raise InputError(f"no file {str(file)!r}", hint="give the path of an .onnx file")
        try:
            self._runner = OnnxRunner(file)
        except Exception as error:
            raise InputError(
                f"{file.name} is no ONNX model that tinygrad can read: {type(error).__name__}: {error}",
                where=str(file),
                hint="check it with onnx.checker.check_model",
            ) from error
        self.__name__ = file.stem
        self.inputs = tuple(
            _input(name, value, batch, dict(dims or {}), file)
            for name, value in self._runner.graph_inputs.items()
        )
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(_parameter(s.name), inspect.Parameter.POSITIONAL_ONLY) for s in self.inputs]
        )
        self._weights = {n: t for n, t in self._runner.graph_values.items() if isinstance(t, Tensor)}
        self._find_constants(file)

    def __call__(self, *inputs: Any) -> Any:
        """Outputs of the graph: a Tensor, or a dict of Tensors by name when there are several."""
        outputs = self._runner({s.name: x for s, x in zip(self.inputs, inputs, strict=True)})
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def example_inputs(self) -> tuple[npt.NDArray[Any], ...]:
        """Zeros of the shapes and dtypes of the inputs."""
        return tuple(np.zeros(s.shape, s.dtype.numpy()) for s in self.inputs)

    def named_weights(self) -> dict[str, Tensor]:
        """Initializers of the graph."""
        return self._weights

    def _find_constants(self, file: Path) -> None:
        """Let the runner read the shapes and axes that the graph holds as tensors; results stay lazy."""
        device = default_device()
        lazy = [Tensor.empty(*s.shape, dtype=tinygrad_dtype(s.dtype), device=device) for s in self.inputs]
        try:
            self(*lazy)
        except Tg2hdlError:
            raise
        except NotImplementedError as error:
            raise UnsupportedError(
                f"tinygrad does not have an operator of {file.name}: {error}",
                where=str(file),
                hint="export the model with another opset, or replace the operator",
            ) from error
        except Exception as error:
            raise InputError(
                f"{file.name} fails in tinygrad: {type(error).__name__}: {error}",
                where=str(file),
                notes=tuple(f"input {s.name}: {s.shape} {s.dtype}" for s in self.inputs),
                hint="check the sizes of symbolic dimensions",
            ) from error


def _input(name: str, value: Any, batch: int | None, dims: dict[str, int], file: Path) -> TensorSpec:
    shape = []
    for position, size in enumerate(value.shape):
        if isinstance(size, str) or not size:
            found = dims.get(str(size)) or (batch if position == 0 else None)
            if found is None:
                raise InputError(
                    f"dimension {position} of input {name!r} is symbolic: {size or '?'}",
                    where=str(file),
                    hint=f"give batch=1, or dims={{{str(size or 'N')!r}: size}}",
                )
            size = found
        shape.append(int(size))
    return TensorSpec(name, tuple(shape), DType.from_tinygrad(value.dtype))


def _parameter(name: str) -> str:
    clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "x"
    return clean if clean.isidentifier() else f"x_{clean}"
