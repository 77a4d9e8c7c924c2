"""The result of a whole model as tinygrad computes it, with its own scheduler and device."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.device import Buffer
from tinygrad.engine.realize import get_call_arg_uops
from tinygrad.tensor import all_tensors
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend.tinygrad_adapter.contents import contents_of, single_buffer
from tg2hdl_backend.tinygrad_adapter.model_inputs import numpy_of, spec_of, stored, tinygrad_dtype
from tg2hdl_backend.tinygrad_adapter.symbolic import settings, unchanged_tensors
from tg2hdl_backend.tinygrad_adapter.trace import (
    flat_tensors,
    plain_function,
    reachable_tensors,
    store_expressions,
    trace,
)
from tg2hdl_ir import DType, UnsupportedError
from tg2hdl_ir.errors import model_place
from tg2hdl_ir.turns import compiles

__all__ = ["own_result", "reference_device"]

Array = npt.NDArray[Any]
_FILES = ("DISK", "TINYFS")
_DEVICE: Any = getattr(Ops, "DEVICE", None)  # only 0.13 has it
# The interpreter runs about a million operations in half a minute.
_MUCH = 2_000_000


def reference_device(operations: int, dtypes: Iterable[DType]) -> str:
    """Device for references: tinygrad's interpreter, or compiled C for large work where a compiler is installed.

    Short floats stay with the interpreter: the CPU device emulates them, without rounding between fused operations.

    Parameters
    ----------
    operations : int
        Of one run of the model, roughly.
    dtypes : iterable of DType
        Types of its buffers.
    """
    short = any(d.is_float and d.numpy().itemsize < 4 for d in dtypes)
    has_compiler = shutil.which(os.environ.get("CC", "clang")) is not None
    return "CPU" if operations > _MUCH and has_compiler and not short else "PYTHON"


@compiles
def own_result(model: Callable[..., Any], *inputs: Any, device: str = "PYTHON") -> list[Array]:
    """Results of a model as tinygrad computes them, flat in the order of its outputs.

    No part of this compiler is involved: tinygrad schedules the model again, without its optimizations of loops, so
    that sums keep their order, and runs it on `device`.  The model's tensors are as before afterwards.  What tinygrad
    runs only with these optimizations, as the interpreter a maximum of halves, runs with them.

    Parameters
    ----------
    model : callable
        As for `capture`.
    inputs : array, Tensor or bound Variable
        One per parameter.
    device : str
        ``PYTHON`` (tinygrad's interpreter, exact but slow) or ``CPU`` (needs clang); see `reference_device`.

    Raises
    ------
    UnsupportedError
        When tinygrad cannot run the model on that device.
    """
    function = plain_function(model)
    arrays = [i if isinstance(i, UOp) else numpy_of(i) for i in inputs]
    specs = [i if isinstance(i, UOp) else spec_of(f"x{n}", i) for n, i in enumerate(arrays)]
    used = _used_buffers(model, specs)
    failures: list[Exception] = []
    foreign: set[str] = set()
    for plain_loops in (1, 0):
        # Each attempt begins with the state that the model had.
        with _tensors_on(device, used), settings(NOOPT=plain_loops, BEAM=0, JIT=0, DEV=device):
            try:
                arguments = [a if isinstance(a, UOp) else _tensor(a, device) for a in arrays]
                weights = list(reachable_tensors(model).values())
                store_expressions(weights)
                for weight in weights:
                    if weight.uop.device is not None:
                        weight.realize()
                results = list(flat_tensors(function(*arguments)))
                foreign |= _ops_of_plugins(results)
                return [_array(t, device) for t in results]
            except MemoryError:
                raise
            except Exception as error:
                failures.append(error)
    where = model_place(getattr(function, "__name__", type(function).__name__))
    if foreign:
        raise UnsupportedError(
            f"tinygrad's {device} device does not have these ops of plugins: {', '.join(sorted(foreign))}",
            where=where,
            hint="compare with a reference of your own; golden and simulate compute the op",
        )
    first = failures[0]
    raise UnsupportedError(
        f"tinygrad cannot run the model on its {device} device: {type(first).__name__}: {first}",
        where=where,
        hint="compare with another reference",
    ) from first


def _ops_of_plugins(results: Iterable[Tensor]) -> set[str]:
    """Names of the ops that `custom_op` has put into a program."""
    return {u.arg[0] for t in results for u in t.uop.toposort() if u.op is Ops.CUSTOMI}


def _used_buffers(model: Callable[..., Any], specs: list[Any]) -> set[int]:
    """Allocations that the kernels of a model touch."""
    arguments = [uop for call in trace(model, specs).calls for uop in get_call_arg_uops(call)]
    return {id(found.base) for uop in arguments if isinstance(found := uop.buffer, Buffer)}


@contextmanager
def _tensors_on(device: str, used: set[int]) -> Iterator[None]:
    """Copies of the used buffers on another device, in the place of all tensors that name them."""
    before = [(t, t.uop) for ref in list(all_tensors) if (t := ref()) is not None]
    moved: dict[UOp, UOp] = {}
    with unchanged_tensors():
        for tensor, uop in before:
            if any(u.op is Ops.BUFFER and id(single_buffer(u).base) in used for u in uop.toposort()):
                tensor.uop = _moved(uop, device, moved)
        yield


def _moved(root: UOp, device: str, moved: dict[UOp, UOp]) -> UOp:
    for uop in root.toposort():
        if uop in moved:
            continue
        sources = tuple(moved[s] for s in uop.src)
        if uop.op is Ops.BUFFER and not str(uop.device).startswith(_FILES):
            moved[uop] = _buffer_on(uop, device)
        elif uop.op is Ops.COPY and isinstance(uop.arg, str) and not uop.arg.startswith(_FILES):
            moved[uop] = uop.replace(src=sources, arg=device)
        elif uop.op is Ops.COPY and len(sources) == 2 and not str(uop.device).startswith(_FILES):
            moved[uop] = uop.replace(src=(sources[0], UOp(_DEVICE, arg=device)))
        else:
            moved[uop] = uop.replace(src=sources) if sources != uop.src else uop
    return moved[root]


def _buffer_on(uop: UOp, device: str) -> UOp:
    """A new buffer with the same contents."""
    buffer = single_buffer(uop)
    new: UOp = UOp.new_buffer(device, buffer.size, uop.dtype)
    contents = contents_of(buffer.base, buffer.offset, buffer.nbytes)
    if contents is not None:
        allocated = single_buffer(new)
        allocated.ensure_allocated()
        _write(allocated, contents)
    return new


def _write(buffer: Any, contents: bytes) -> None:
    source = memoryview(bytearray(contents))
    if hasattr(buffer, "copyin"):
        buffer.copyin(source)
    else:
        buffer.copy_from(type(buffer)("PYTHON", buffer.size, buffer.dtype, opaque=source))


def _tensor(array: Array, device: str) -> Tensor:
    dtype = spec_of("x", array).dtype
    if array.dtype.isbuiltin == 1:
        return Tensor(array.copy(), device=device).realize()
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    return Tensor(bits, device=device).bitcast(tinygrad_dtype(dtype)).contiguous().realize()


def _array(tensor: Tensor, device: str) -> Array:
    found = stored(tensor, device).contiguous().realize()
    storage = DType.from_tinygrad(found.dtype).numpy()
    if storage.kind != "b" and storage.itemsize < 4:
        # Python's buffers have no name for the short float formats.
        found = found.bitcast(f"uint{8 * storage.itemsize}").contiguous().realize()
    return np.frombuffer(bytes(found.data()), storage).reshape([int(s) for s in tensor.shape]).copy()
