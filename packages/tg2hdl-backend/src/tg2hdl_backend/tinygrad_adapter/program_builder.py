"""From collected kernels and copies to a program over buffers with roles and contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad.engine.realize import get_call_arg_uops
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend.tinygrad_adapter.buffer_info import buffer_metas
from tg2hdl_backend.tinygrad_adapter.contents import contents_of, single_buffer
from tg2hdl_backend.tinygrad_adapter.linearize import linearize
from tg2hdl_backend.tinygrad_adapter.memory_views import Allocation, MemoryView, ViewKernel
from tg2hdl_backend.tinygrad_adapter.model_inputs import TensorSpec
from tg2hdl_backend.tinygrad_adapter.origins import Origins
from tg2hdl_backend.tinygrad_adapter.reinterpret import load_as, storage_bits
from tg2hdl_backend.tinygrad_adapter.uop_to_ir import uop_to_ir
from tg2hdl_ir import (
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRValue,
    IRVariable,
    KernelCall,
    KernelIR,
    LoopIR,
    ProgramBuffer,
    ProgramIR,
    UnsupportedError,
)
from tg2hdl_ir.program import check_contents

__all__ = ["BuiltProgram", "ProgramBuilder", "copy_kernel"]

_VIEW = getattr(Ops, "BUFFER_VIEW", None)


@dataclass(frozen=True)
class BuiltProgram:
    """A program, the UOps of each of its calls (empty for copies), and the buffers of the inputs.

    `once` are the calls that are made only before the first run.
    """

    program: ProgramIR
    uops: tuple[tuple[UOp, ...], ...]
    inputs: tuple[int, ...]
    once: tuple[bool, ...] = ()


class ProgramBuilder:
    """Collects calls, then decides which memories are inputs, weights, temporaries and outputs.

    Parameters
    ----------
    origins : Origins, optional
        Origin of the ops, for messages.
    """

    def __init__(self, origins: Origins | None = None) -> None:
        self.origins = origins or Origins()
        self.memories: dict[int, Allocation] = {}
        self.steps: list[ViewKernel] = []
        self.buffers: list[ProgramBuffer] = []
        self.index: dict[tuple[int, int, int, str] | int, int] = {}
        self.taken: set[str] = set()
        self.open_inputs = False
        self.view_names: dict[MemoryView, str] = {}

    def add_input(self, uop: UOp, spec: TensorSpec) -> None:
        """Declare the memory of a model input.

        Parameters
        ----------
        uop : UOp
            Buffer of tinygrad.
        spec : TensorSpec
        """
        self.memories[self.view(uop).key].input = spec

    def name_weights(self, names: Mapping[str, UOp]) -> None:
        """Name the memories of the model's own tensors."""
        for name, uop in names.items():
            base = uop.base
            while base.op is Ops.AFTER:
                base = base.src[0].base
            if base.op is Ops.BUFFER and not isinstance(base.device, tuple):
                memory = self.memories.get(id(single_buffer(base).base))
                if memory is not None and memory.name is None:
                    memory.name = name

    def add_calls(self, calls: Iterable[UOp], once: int = 0) -> None:
        """Add kernels and copies in execution order; the first `once` of them are made only before the first run.

        Parameters
        ----------
        calls : iterable of UOp
            Kernels, copies and views, as tinygrad schedules them.
        once : int, default 0
            How many of the first run once only.
        """
        for number, call in enumerate(calls):
            before = len(self.steps)
            ast, arguments = call.src[0], get_call_arg_uops(call)
            if ast.op is Ops.SINK:
                self._add_kernel(ast, arguments)
            elif ast.op is Ops.COPY:
                self._add_copy(self.view(arguments[0]), self.view(arguments[1]))
            elif ast.op is _VIEW:
                whole = self.view(arguments[1])
                self._add_copy(
                    self.view(arguments[0]),
                    MemoryView(
                        whole.key,
                        whole.start + ast.arg[1] * whole.bytes_per_element,
                        ast.arg[0],
                        self.view(arguments[0]).dtype,
                    ),
                )
            else:
                raise UnsupportedError(
                    f"no hardware for a scheduled {ast.op.name}",
                    where=f"buffers {[str(a.dtype) for a in arguments]}",
                    hint="keep the model on one device and free of custom kernels",
                )
            for step in self.steps[before:]:
                step.once = number < once

    def _add_kernel(self, ast: UOp, arguments: Sequence[UOp]) -> None:
        """Add a scheduled kernel."""
        uops = tuple(linearize(ast))
        metas = buffer_metas(uops)
        views = tuple(self.view(arguments[m.idx]) for m in metas)
        for meta, view in zip(metas, views, strict=True):
            self.memories[view.key].written += meta.is_output
        slots, writes = tuple(m.idx for m in metas), tuple(m.is_output for m in metas)
        self.steps.append(ViewKernel(uops, slots, views, writes))

    def _add_copy(self, destination: MemoryView, source: MemoryView) -> None:
        """Add a copy of equal size."""
        self.memories[destination.key].written += 1
        self.steps.append(ViewKernel((), (0, 1), (destination, source), (True, False)))

    def view(self, uop: UOp) -> MemoryView:
        """Elements that a buffer argument names."""
        buffer = single_buffer(uop)
        dtype = DType.from_tinygrad(buffer.dtype)
        base = buffer.base
        self.memories.setdefault(id(base), Allocation(base))
        return MemoryView(id(base), buffer.offset, buffer.size, dtype)

    def build(
        self,
        name: str,
        outputs: Sequence[TensorSpec],
        output_uops: Sequence[UOp],
        *,
        open_inputs: bool = False,
    ) -> BuiltProgram:
        """Resolve copies of known memories, and lay out the buffers.

        Parameters
        ----------
        open_inputs : bool
            Memories without contents that no kernel writes become inputs; they are refused otherwise.
        """
        self.open_inputs = open_inputs
        aliases = self.resolve_copies()
        inputs = [m for m in self.memories.values() if m.input is not None]
        for memory in inputs:
            assert memory.input is not None
            self._add_buffer(
                id(memory.buffer), memory.input.name, memory.input.dtype, memory.input.shape, "input"
            )
        results = self._place_outputs(outputs, output_uops, aliases)
        calls: list[KernelCall] = []
        uops: list[tuple[UOp, ...]] = []
        once: list[bool] = []
        variables: dict[str, IRVariable] = {}
        steps = [replace(step, views=tuple(aliases.get(v, v) for v in step.views)) for step in self.steps]
        for step, source in zip(steps, self.origins.describe(steps), strict=True):
            views = step.views
            kernel = self.kernel(step, views, source)
            for variable in kernel.variables:
                variables.setdefault(variable.name, variable)
            numbers = [self.buffer_of(v) for v in views]
            before = len(calls)
            for position, number in enumerate(numbers):
                taken = number in numbers[:position] or any(
                    w and n == number for w, n in zip(step.writes, numbers, strict=True)
                )
                if taken and not step.writes[position]:
                    numbers[position] = self._duplicate(number, calls, uops)
            calls.append(KernelCall(kernel, tuple(numbers), source=source))
            uops.append(step.uops)
            once += [step.once] * (len(calls) - before)
        program = ProgramIR(name, tuple(self.buffers), tuple(calls), results, tuple(variables.values()))
        if not open_inputs:
            check_contents(program)
        numbers_of = tuple(self.index[id(m.buffer)] for m in inputs)
        return BuiltProgram(program, tuple(uops), numbers_of, tuple(once))

    def _duplicate(self, number: int, calls: list[KernelCall], uops: list[tuple[UOp, ...]]) -> int:
        """Buffer with the same contents, for a kernel that has one buffer in two slots."""
        old = self.buffers[number]
        role = "weight" if old.role == "weight" else "temporary"
        initial = old.initial if role == "weight" else None
        new = self._add_buffer(
            ("copy", len(self.buffers)), f"{old.name}_copy", old.dtype, (old.depth,), role, initial
        )
        if role == "temporary":
            metas = (
                BufferMeta(0, old.depth, old.dtype, True, self.buffers[new].name),
                BufferMeta(1, old.depth, old.dtype, False, old.name),
            )
            calls.append(KernelCall(copy_kernel(*metas, old.dtype, 0, 0, old.depth), (new, number)))
            uops.append(())
        return new

    def resolve_copies(self) -> dict[MemoryView, MemoryView]:
        """Drop copies whose destination can be read from the source directly."""
        aliases: dict[MemoryView, MemoryView] = {}
        kept = []
        for step in self.steps:
            destination, source = step.views[:2] if not step.uops else (None, None)
            if destination is not None and source is not None:
                source = aliases.get(source, source)
                whole = (
                    destination.start == 0 and destination.size == self.memories[destination.key].buffer.size
                )
                uses = [v for s in self.steps for v in s.views if v.key == destination.key]
                if (
                    whole
                    and self.memories[destination.key].written == 1
                    and self.memories[destination.key].input is None
                    and self.memories[source.key].written == 0
                    and all(v == destination for v in uses)
                ):
                    aliases[destination] = source
                    name = self.memories[destination.key].name
                    if name is not None:
                        self.view_names.setdefault(source, name)
                    continue
            kept.append(step)
        self.steps = kept
        return aliases

    def _place_outputs(
        self, outputs: Sequence[TensorSpec], uops: Sequence[UOp], aliases: Mapping[MemoryView, MemoryView]
    ) -> tuple[int, ...]:
        """Give each result a buffer of its own; a result that is an input, a weight or a part is copied."""
        results = []
        each_run = {
            v.key for s in self.steps if not s.once for v, w in zip(s.views, s.writes, strict=True) if w
        }
        for spec, uop in zip(outputs, uops, strict=True):
            view = self.view(uop)
            view = aliases.get(view, view)
            memory = self.memories[view.key]
            whole = (
                view.start == 0 and view.size == memory.buffer.size and _dtype(memory.buffer) == view.dtype
            )
            computed = view.key in each_run and memory.input is None
            if whole and computed:
                if view.key not in self.index:
                    self._add_buffer(view.key, spec.name, spec.dtype, spec.shape, "output", _contents(memory))
                results.append(self.index[view.key])
            else:
                own = MemoryView(-1 - len(self.index), 0, view.size, view.dtype)
                results.append(self._add_buffer(own.key, spec.name, spec.dtype, spec.shape, "output"))
                self.steps.append(ViewKernel((), (0, 1), (own, view), (True, False)))
        return tuple(results)

    def kernel(self, step: ViewKernel, views: Sequence[MemoryView], source: str) -> KernelIR:
        """Kernel IR whose buffers are as deep as the program's.

        Parameters
        ----------
        step : ViewKernel
            Kernel or copy.
        views : sequence of MemoryView
            Memory of each slot.
        source : str
            Layer or line of the model, for messages.
        """
        if not step.uops:
            destination, origin = views
            start = origin.offset if self.shared(origin) else 0
            written, read = self.meta(0, destination, True), self.meta(1, origin, False)
            return copy_kernel(written, read, origin.dtype, destination.offset, start, origin.size)
        metas = [self.meta(s, v, w) for s, v, w in zip(step.slots, views, step.writes, strict=True)]
        offsets = {s: v.offset for s, v in zip(step.slots, views, strict=True) if self.shared(v) and v.offset}
        return uop_to_ir(step.uops, metas, offsets=offsets, source=source)

    def shared(self, view: MemoryView) -> bool:
        """Whether a view is addressed inside of its memory's buffer, rather than copied to a weight."""
        return (
            view.key < 0 or self.memories[view.key].written > 0 or self.memories[view.key].input is not None
        )

    def meta(self, slot: int, view: MemoryView, is_output: bool) -> BufferMeta:
        """Kernel's descriptor of a view.

        Parameters
        ----------
        slot : int
            Of the kernel.
        view : MemoryView
            Memory in it.
        is_output : bool
        """
        buffer = self.buffers[self.buffer_of(view)]
        return BufferMeta(slot, buffer.depth, buffer.dtype, is_output, buffer.name)

    def buffer_of(self, view: MemoryView) -> int:
        """Index of the program buffer that holds a view."""
        key: Any = view.key
        if not self.shared(view):
            key = (view.key, view.start, view.size, view.dtype.name)
        if key in self.index:
            return self.index[key]
        memory = self.memories[view.key]
        if not self.shared(view):
            name = self.view_names.get(view) or memory.name or self.fresh("w")
            contents = _contents(memory, view)
            if contents is None and self.open_inputs:
                return self._add_buffer(
                    key, memory.name or self.fresh("x"), view.dtype, (view.size,), "input"
                )
            return self._add_buffer(key, name, view.dtype, (view.size,), "weight", contents)
        size, dtype = memory.buffer.size, _dtype(memory.buffer)
        name = memory.name or self.fresh("temp")
        return self._add_buffer(key, name, dtype, (size,), "temporary", _contents(memory))

    def _add_buffer(
        self,
        key: Any,
        name: str,
        dtype: DType,
        shape: tuple[int, ...],
        role: str,
        initial: npt.NDArray[Any] | None = None,
    ) -> int:
        """Append a program buffer."""
        unique, n = name, 1
        while unique in self.taken:
            unique, n = f"{name}_{n}", n + 1
        self.taken.add(unique)
        self.buffers.append(ProgramBuffer(unique, dtype, shape, role, initial))
        self.index[key] = len(self.buffers) - 1
        return self.index[key]

    def fresh(self, prefix: str) -> str:
        """First unused name with this prefix."""
        n = 0
        while f"{prefix}{n}" in self.taken:
            n += 1
        return f"{prefix}{n}"


def copy_kernel(
    destination: BufferMeta, source: BufferMeta, dtype: DType, write_offset: int, read_offset: int, size: int
) -> KernelIR:
    """Kernel that copies `size` elements of type `dtype` from slot 1 to slot 0.

    Parameters
    ----------
    destination, source : BufferMeta
        Slots 0 and 1.
    dtype : DType
        Of the elements that are copied.
    write_offset, read_offset : int
        In elements of the two buffers.
    size : int
        Elements.
    """
    counter = IRCounter(size, 0, 0)
    items: list[IRItem] = []

    def shifted(offset: int) -> IRValue:
        return IROp("add", counter.dtype, (counter, IRConst(offset, counter.dtype))) if offset else counter

    def read(address: IRValue) -> IRBufLoad:
        items.append(load := IRBufLoad(source.idx, address, source.dtype))
        return load

    if storage_bits(destination.dtype) != storage_bits(dtype):
        raise UnsupportedError(
            f"copy of {dtype} into a buffer of {destination.dtype}",
            where=f"buffer {destination.name}",
            hint="write a tensor of its own and bitcast that",
        )
    value = load_as(read, shifted(read_offset), source.dtype, dtype)
    if value.dtype != destination.dtype:
        value = IROp("bitcast", destination.dtype, (value,))
    items.append(IRBufStore(destination.idx, shifted(write_offset), value, destination.dtype))
    loop = LoopIR.from_items(tuple(items), counter=counter, axis_type="loop")
    return KernelIR((destination, source), LoopIR.from_items((loop,)), name=f"copy_{size}")


def _dtype(buffer: Any) -> DType:
    return DType.from_tinygrad(buffer.dtype)


def _contents(memory: Allocation, view: MemoryView | None = None) -> npt.NDArray[Any] | None:
    buffer = memory.buffer
    if memory.input is not None:
        return None
    dtype = _dtype(buffer) if view is None else view.dtype
    start, size = (0, buffer.size) if view is None else (view.start, view.size)
    raw = contents_of(buffer, start, size * dtype.numpy().itemsize)
    return None if raw is None else np.frombuffer(raw, dtype.numpy()).copy()
