"""Names, shapes and dtypes of the inputs and outputs of a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend.tinygrad_adapter.contents import single_buffer
from tg2hdl_backend.tinygrad_adapter.dialect import strong
from tg2hdl_ir import DType, InputError, UnsupportedError
from tg2hdl_ir.errors import model_place

__all__ = [
    "ProgramTensor",
    "TensorSpec",
    "arrays_of",
    "bound_values",
    "check_arity",
    "example_values",
    "numpy_of",
    "parameter_names",
    "spec_of",
    "stored",
    "tinygrad_dtype",
]


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a model.

    Parameters
    ----------
    name : str
    shape : tuple of int
    dtype : DType
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType

    def zeros(self) -> npt.NDArray[Any]:
        """Array of this shape and dtype."""
        return np.zeros(self.shape, self.dtype.numpy())

    def check(self, value: Any) -> npt.NDArray[Any]:
        """Array of exactly this shape and dtype.

        Raises
        ------
        InputError
            For another shape or dtype, or a path.
        """
        if isinstance(value, str | PathLike):
            raise InputError(
                f"input {self.name!r} is a {type(value).__name__}, not an array",
                where=f"input {self.name!r}",
                hint="read a file with numpy.load; report().save(path) writes a report",
            )
        array = numpy_of(value)
        if array.shape != self.shape:
            raise InputError(
                f"input {self.name!r} has shape {array.shape}, the model was compiled for {self.shape}",
                where=f"input {self.name!r}",
                hint="pass this shape, or compile again with an example input of the new one",
            )
        if array.dtype != self.dtype.numpy():
            raise InputError(
                f"input {self.name!r} has dtype {array.dtype}, "
                f"the model was compiled for {self.dtype.numpy()}",
                where=f"input {self.name!r}",
                hint=f"convert it with .astype({str(self.dtype.numpy())!r})",
            )
        return array


@dataclass(frozen=True)
class ProgramTensor(TensorSpec):
    """An input or output of a captured program; `buffer` is the index of its buffer there."""

    buffer: int


def arrays_of(arguments: Iterable[Any]) -> list[Any]:
    """Arguments of a model without the bound Variables among them."""
    return [a for a in arguments if not isinstance(a, UOp)]


def bound_values(arguments: Iterable[Any]) -> dict[str, int]:
    """Values of the bound Variables among the arguments of a model, by name.

    Raises
    ------
    InputError
        For a Variable that is not bound.
    """
    found = {}
    for uop in (a for a in arguments if isinstance(a, UOp)):
        try:
            variable, value = uop.unbind()
        except Exception as error:  # of several kinds, by the version of tinygrad
            raise InputError(
                "an argument is not a bound Variable",
                hint="bind it to a value: Variable(NAME, LOW, HIGH).bind(VALUE)",
            ) from error
        found[variable.expr] = int(value)
    return found


def tinygrad_dtype(dtype: DType) -> Any:
    """tinygrad dtype of an IR dtype."""
    return _BY_NAME[dtype.name]


def numpy_of(value: Any) -> npt.NDArray[Any]:
    """Numpy array of a tensor, an array or a scalar."""
    if isinstance(value, Tensor):
        value = stored(value)
        dtype = DType.from_tinygrad(value.dtype)
        if dtype.is_float and dtype.numpy().itemsize < 4:
            # Python's buffers have no name for the short float formats.
            value = value.bitcast(f"uint{8 * dtype.numpy().itemsize}")
        return np.frombuffer(value.contiguous().realize().data(), dtype.numpy()).reshape(value.shape)
    return np.asarray(value)


def stored(tensor: Tensor, device: str = "PYTHON") -> Tensor:
    """The tensor with a dtype of known width and a device.

    tinygrad computes a tensor of bare constants, such as ``Tensor(0.5)``, on its CPU device, which needs clang; here
    it is computed on `device`.

    Parameters
    ----------
    tensor : Tensor
    device : str, default "PYTHON"
        For a tensor without one.
    """
    known = strong(tensor)
    return known.clone(device) if known.uop.device is None else known


def example_values(examples: Sequence[Any]) -> list[npt.NDArray[Any] | None]:
    """Contents of example inputs, bound Variables left out; None for one without any, as `Tensor.empty` makes.

    Raises
    ------
    InputError
        When tinygrad cannot compute one.
    """
    return [_contents(example) for example in arrays_of(examples)]


def _contents(example: Any) -> npt.NDArray[Any] | None:
    if isinstance(example, Tensor):
        graph = example.uop.toposort()
        stored = {u.src[0] for u in graph if u.op in _STORES}
        if any(u.op is Ops.BUFFER and u not in stored and not _has_contents(u) for u in graph):
            return None
    try:
        return numpy_of(example)
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(
            f"tinygrad cannot compute an example input: {type(error).__name__}: {error}",
            hint="give a numpy array in its place, or take random inputs",
        ) from error


_STORES = {op for name in ("STORE", "ASSIGN") if (op := getattr(Ops, name, None)) is not None}


def _has_contents(uop: UOp) -> bool:
    buffer = single_buffer(uop).base
    return bool(buffer.is_allocated()) or str(buffer.device).startswith(("DISK", "TINYFS"))


def spec_of(name: str, example: Any) -> TensorSpec:
    """Shape and dtype of an example input: a tensor, an array or anything that numpy accepts.

    Parameters
    ----------
    name : str
        Of the input.
    example

    Raises
    ------
    InputError
        For a dtype without hardware, or an empty shape.
    """
    try:
        if isinstance(example, Tensor):
            if not all(isinstance(s, int) for s in example.shape):
                raise UnsupportedError("its shape has a Variable")
            shape, dtype = tuple(int(s) for s in example.shape), DType.from_tinygrad(example.dtype)
        else:
            array = np.asarray(example)
            shape = array.shape
            if array.dtype not in _BY_NUMPY:
                raise UnsupportedError(f"no hardware type for numpy dtype {array.dtype}")
            dtype = _BY_NUMPY[array.dtype]
    except UnsupportedError as error:
        raise InputError(
            f"example input {name!r}: {error.message}",
            where=f"input {name!r}",
            hint="pass a numpy array or a Tensor of a bool, integer or float type, with a constant shape",
        ) from None
    if 0 in shape:
        raise InputError(
            f"example input {name!r} is empty: shape {shape}",
            where=f"input {name!r}",
            hint="pass an example with at least one element",
        )
    return TensorSpec(name, shape, dtype)


def check_arity(model: Callable[..., Any], examples: Sequence[Any]) -> tuple[str, ...]:
    """Names of the positional parameters that the examples fill.

    Parameters
    ----------
    model : callable
    examples : sequence
        One for each input.

    Raises
    ------
    InputError
        When an example is missing, or there is one too many; for a class instead of an object of it.
    """
    if isinstance(model, type):
        raise InputError(
            f"the model is the class {model.__name__}, not an object of it",
            hint=f"make one: model = {model.__name__}(), whose __call__ takes the Tensors",
        )
    try:
        signature = inspect.signature(model)
    except (TypeError, ValueError):
        return tuple(f"x{n}" for n in range(len(examples)))
    positional = [
        p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    required = [p.name for p in positional if p.default is p.empty]
    required += [
        p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty
    ]
    if len(examples) < len(required):
        missing = required[len(examples) :]
        raise InputError(
            f"no example input for {', '.join(missing)}",
            where=f"{model_place(model_name(model))}{signature}",
            hint="pass one example per parameter: an array or Tensor of the right shape and dtype",
        )
    if len(examples) > len(positional) and not variadic:
        raise InputError(
            f"{len(examples)} example inputs for a model that takes {len(positional)}",
            where=f"{model_place(model_name(model))}{signature}",
            hint="pass one example per parameter",
        )
    names = [p.name for p in positional[: len(examples)]]
    return tuple(names + [f"x{n}" for n in range(len(names), len(examples))])


def parameter_names(model: Any, given: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of a model's inputs: those of its file, or its parameters without optional ones that are not `given`.

    Parameters
    ----------
    model : callable
    given : iterable of str
        Names of inputs that are given, optional ones among them.
    """
    if hasattr(model, "input_names"):
        return tuple(model.input_names)
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return tuple(given)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return tuple(p.name for p in positional if p.default is p.empty or p.name in given)


def model_name(model: Any) -> str:
    """Name of a function, or of the class of an object."""
    return getattr(model, "__name__", type(model).__name__)


def _tinygrad_dtypes() -> dict[str, Any]:
    found = {}
    for dtype in dtypes.all:
        try:
            found[DType.from_tinygrad(dtype).name] = dtype
        except UnsupportedError:
            continue
    return found


_BY_NAME = _tinygrad_dtypes()
_BY_NUMPY = {DType.from_name(name).numpy(): DType.from_name(name) for name in _BY_NAME}
