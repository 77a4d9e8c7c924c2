"""Sizes of the graph's inputs, and values of those that are fixed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, ModelProto, ValueInfoProto, helper, numpy_helper

from tg2hdl_backend.arguments import MissingSizes, in_input_order
from tg2hdl_backend.onnx.tensors import element_type
from tg2hdl_backend.tinygrad_adapter.model_inputs import TensorSpec
from tg2hdl_ir import InputError, UnsupportedError

__all__ = ["check_sizes", "example_sizes", "fixed_values", "resolve_inputs"]


def check_sizes(batch: Any, dims: Any, fixed: Any) -> None:
    """Refuse invalid sizes of the batch or a dimension, and values that are not given by name.

    Parameters
    ----------
    batch, dims, fixed
        As of `OnnxModel`.

    Raises
    ------
    InputError
        For a size that is not an integer from 1 on, or anything but a mapping.
    """
    for option, given in (("dims", dims), ("fixed", fixed)):
        if given is not None and not isinstance(given, Mapping):
            raise InputError(
                f"{option} is of type {type(given).__name__}",
                hint=f"give a dict by name: {option}={{'N': 4}}"
                if option == "dims"
                else "give a dict by name: fixed={'axes': [1]}",
            )
    for name, size in {"batch": 1 if batch is None else batch, **(dims or {})}.items():
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 1 <= size < 1 << 31:
            raise InputError(f"{name} has the size {size!r:.60}", hint="give an integer from 1 on")


def fixed_values(graph: GraphProto, given: dict[str, Any], file: Path) -> dict[str, npt.NDArray[Any]]:
    """Arrays of the inputs that the user fixes, in the types of the graph.

    Parameters
    ----------
    graph : GraphProto
    given : dict of str to object
        Values by the name of an input.
    file : Path
        Named in errors.

    Raises
    ------
    InputError
        For a name that is not an input, or a value of another shape or type.
    """
    known = {i.name for i in graph.initializer}
    inputs = {i.name: i for i in graph.input if i.name not in known}
    fixed = {}
    for name, value in given.items():
        if name not in inputs:
            raise InputError(
                f"{file.name} has no input {name!r} to fix",
                where=str(file),
                hint="its inputs are " + (", ".join(inputs) or "none"),
            )
        tensor = inputs[name].type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        try:
            array = np.asarray(value)
            wanted = array.astype(dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise InputError(
                f"input {name!r} is {dtype}, which does not hold {value!r:.60}",
                where=str(file),
                hint=f"give values of {dtype}",
            ) from error
        if array.dtype != wanted.dtype and array.size and not (wanted == array).all():
            raise InputError(
                f"input {name!r} is {dtype}, which does not hold {array.tolist()}",
                where=str(file),
                hint=f"give values of {dtype}",
            )
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        if tensor.HasField("shape") and (
            len(sizes) != wanted.ndim
            or any(s not in (None, got) for s, got in zip(sizes, wanted.shape, strict=True))
        ):
            raise InputError(
                f"input {name!r} has shape {tuple('?' if s is None else s for s in sizes)}, "
                f"the value to fix it has {wanted.shape}",
                where=str(file),
                hint="give a value of this shape",
            )
        fixed[name] = wanted
    return fixed


def resolve_inputs(
    model: ModelProto,
    batch: int | None,
    dims: dict[str, int],
    fixed: dict[str, npt.NDArray[Any]],
    file: Path,
) -> tuple[TensorSpec, ...]:
    """Inputs with sizes; those sizes and the fixed values are written into `model` too, to infer shapes from.

    Parameters
    ----------
    model : ModelProto
        Changed in place.
    batch : int or None
        Size of the first dimension where it has no other name.
    dims : dict of str to int
        Sizes by name.
    fixed : dict of str to ndarray
        Of `fixed_values`.
    file : Path
        Named in errors.

    Raises
    ------
    InputError
        For a dimension without a size, or a size for a dimension that does not exist.
    UnsupportedError
        For an input that is not a tensor, or of a type without hardware.
    """
    graph = model.graph
    known = {i.name for i in graph.initializer}
    kept = [i for i in graph.input if i.name not in known and i.name not in fixed]
    sizes = dict(dims)
    used: set[str] = set()
    for info in kept:
        shape = info.type.tensor_type.shape.dim
        if batch is not None and shape and _is_name(shape[0].dim_param):
            sizes.setdefault(shape[0].dim_param, batch)
    specs = []
    missing: list[tuple[str, int, str]] = []
    for info in kept:
        where = f"input {info.name!r} of {file.name}"
        if info.type.WhichOneof("value") != "tensor_type":
            kind = info.type.WhichOneof("value") or "nothing"
            raise UnsupportedError(
                f"input {info.name!r} is a {kind.removesuffix('_type')}",
                where=where,
                hint="export the model with tensors as inputs",
            )
        tensor = info.type.tensor_type
        if not tensor.HasField("shape"):
            raise InputError(
                f"input {info.name!r} has no shape",
                where=str(file),
                hint="export the model with shapes of inputs",
            )
        if _is_empty(info, batch, sizes):
            fixed[info.name] = np.zeros(
                [d.dim_value for d in tensor.shape.dim], helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            )
            continue
        shape = []
        for axis, dim in enumerate(tensor.shape.dim):
            size = _size(info, axis, batch, sizes, used)
            if size is None:
                missing.append((info.name, axis, dim.dim_param))
            shape.append(size or 1)
        for dim, size in zip(tensor.shape.dim, shape, strict=True):
            dim.Clear()
            dim.dim_value = size
        specs.append(TensorSpec(info.name, tuple(shape), element_type(tensor.elem_type, where)))
    if missing:
        raise _missing_sizes(missing, file)
    first = {s.name: s.shape[0] for s in specs if s.shape}
    if batch is not None and first and batch not in first.values():
        name, size = next(iter(first.items()))
        raise InputError(
            f"no input of {file.name} has batch={batch}: the first dimension of {name!r} has size {size}",
            where=str(file),
            hint="leave batch out, or export the model with a symbolic first dimension",
        )
    unused = set(dims) - used
    if unused:
        symbolic = [name for name in sorted(used) if _is_name(name)] or ["none"]
        raise InputError(
            f"no dimension of {file.name} is named {sorted(unused)[0]!r}",
            where=str(file),
            hint="dimensions that need a size: " + ", ".join(symbolic),
        )
    kept = [i for i in kept if i.name not in fixed]
    del graph.input[:]
    graph.input.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in fixed.items())
    for output in graph.output:
        if output.type.WhichOneof("value") == "tensor_type":
            output.type.tensor_type.ClearField("shape")
    return tuple(specs)


def example_sizes(
    graph: GraphProto, examples: Sequence[Any] | Mapping[str, Any], fixed: Collection[str], file: Path
) -> dict[str, int]:
    """Sizes of symbolic dimensions, by name, as example inputs of the same number of dimensions have them.

    Parameters
    ----------
    graph : GraphProto
    examples : sequence or mapping of str to object
        In their order or by name.
    fixed : collection of str
        Inputs that have values.
    file : Path
        Named in errors.

    Raises
    ------
    InputError
        When two examples give one dimension different sizes, or for a name that is not an input.
    """
    known = {i.name for i in graph.initializer} | set(fixed)
    inputs = [i for i in graph.input if i.name not in known]
    if isinstance(examples, Mapping):
        examples = in_input_order(examples, [i.name for i in inputs], "inputs by name")
    sizes: dict[str, int] = {}
    for info, example in zip(inputs, examples, strict=False):
        shape = tuple(np.shape(example))
        dims = info.type.tensor_type.shape.dim
        if len(shape) == len(dims) + 1 and shape[0] == 1:
            shape = shape[1:]  # A sample with a batch axis that the file does not declare.
        if len(dims) != len(shape):
            continue
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
            name = dim.dim_param if _is_name(dim.dim_param) else f"{info.name}.{axis}"
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            if sizes.setdefault(name, size) != size:
                raise InputError(
                    f"dimension {name} of {file.name} has size {sizes[name]} in one example and {size} in another",
                    where=f"input {info.name!r} of {file.name}",
                    hint="give example inputs whose shapes agree",
                )
    return sizes


def _is_empty(info: ValueInfoProto, batch: int | None, sizes: dict[str, int]) -> bool:
    """Whether an input is declared without elements, so that its contents are known."""
    dims = info.type.tensor_type.shape.dim
    sized = all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims)
    given = batch is not None or any(f"{info.name}.{n}" in sizes for n in range(len(dims)))
    return sized and any(d.dim_value == 0 for d in dims) and not given


def _is_name(text: str) -> bool:
    """Whether a symbolic size names one dimension: exporters write ``?`` for any, also twice."""
    return any(c.isalnum() for c in text)


def _size(
    info: ValueInfoProto, axis: int, batch: int | None, sizes: dict[str, int], used: set[str]
) -> int | None:
    """Size of a dimension: its own, that given for ``INPUT.AXIS`` or for its name, or the batch; None without."""
    dim = info.type.tensor_type.shape.dim[axis]
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    names = [f"{info.name}.{axis}", *filter(None, [dim.dim_param])]
    used.update(names if not _is_name(dim.dim_param) or names[0] in sizes else names[1:])
    found = next((sizes[name] for name in names if name in sizes), None)
    return batch if found is None and axis == 0 else found


def _missing_sizes(missing: Sequence[tuple[str, int, str]], file: Path) -> MissingSizes:
    """Error about dimensions without a size, given as input, axis and symbolic name."""
    dims: dict[str, int] = {}
    for name, axis, symbol in missing:
        dims.setdefault(symbol if _is_name(symbol) else f"{name}.{axis}", axis)
    texts = [
        f"dimension {axis} of input {name!r} "
        + (f"is symbolic: {symbol}" if symbol else "has no size and no name")
        for name, axis, symbol in missing
    ]
    every = "{" + ", ".join(f"{name!r}: size" for name in dims) + "}"
    first = next((name for name, axis in dims.items() if axis == 0), "")
    rest = "{" + ", ".join(f"{name!r}: size" for name in dims if name != first) + "}"
    hint = f"give dims={every}"
    if first and len(dims) == 1:
        hint = f"give batch=1, or dims={every}"
    elif first:
        hint = f"give batch=1 and dims={rest}, or dims={every}"
    error = MissingSizes("; ".join(texts), where=str(file), hint=hint)
    error.dims, error.first = tuple(dims), first
    return error
