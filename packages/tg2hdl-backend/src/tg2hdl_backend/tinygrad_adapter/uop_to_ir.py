"""Convert linearized tinygrad UOps to kernel IR: program order is list position."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinygrad.uop.ops import AxisType, Ops, UOp

from tg2hdl_backend.tinygrad_adapter.buffer_info import BufferInfo, buffer_metas
from tg2hdl_backend.tinygrad_adapter.dialect import Storage, scalar_dtype, storage_of, variable_of
from tg2hdl_backend.tinygrad_adapter.operations import IR_OPERATIONS, mapped_operations
from tg2hdl_backend.tinygrad_adapter.reinterpret import load_as, storage_bits
from tg2hdl_ir import (
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
    RegisterMeta,
    UnsupportedError,
    verify,
)
from tg2hdl_ir.passes.gated_indices import gate_indices

__all__ = ["kernel_name", "uop_to_ir", "uops_to_kernel_ir"]

_WITHOUT_LOCAL = (
    "unset PCONTIG, whose fused loops initialize their sums in every step (tinygrad's CPU device gives the same wrong "
    "numbers), and leave out GROUP optimizations"
)
_ORDERING = {Ops.SINK, Ops.GROUP, Ops.NOOP}
_WAYS_OUT = {
    Ops.SPECIAL: "compile with HDLRenderer, which has no work groups",
    Ops.BARRIER: "compile with HDLRenderer, which has no work groups",
    Ops.WMMA: "compile with HDLRenderer, which has no tensor cores",
}
_DEFAULT_WAY_OUT = "express it with tinygrad's elementwise, reduce and movement ops"


@dataclass(frozen=True)
class _Address:
    """Element `index` of a storage."""

    storage: Storage
    index: IRValue


@dataclass
class _Level:
    """A loop that is still open."""

    range: UOp | None
    counter: IRCounter | None
    axis_type: str | None
    items: list[IRItem] = field(default_factory=list)


def kernel_name(uops: Sequence[UOp]) -> str:
    """Name that tinygrad gave the kernel, without the running number that 0.13 appends."""
    for uop in reversed(uops):
        if uop.op is Ops.SINK and getattr(uop.arg, "function_name", None):
            name = str(uop.arg.function_name)
            return re.sub(r"n\d+$", "", name) if hasattr(Ops, "DEFINE_VAR") else name
    return "kernel"


def uops_to_kernel_ir(uops: Sequence[UOp]) -> tuple[KernelIR, list[BufferInfo]]:
    """Convert linearized UOps to kernel IR.

    Returns
    -------
    kernel : KernelIR
    buf_infos : list of BufferInfo
        One for each global buffer, in slot order.

    Raises
    ------
    UnsupportedError
        For an op or dtype without hardware counterpart.
    """
    metas = buffer_metas(uops)
    return uop_to_ir(uops, metas), [BufferInfo.from_meta(m) for m in metas]


def uop_to_ir(
    uops: Sequence[UOp],
    buf_metas: Sequence[BufferMeta],
    *,
    offsets: Mapping[int, int] | None = None,
    source: str = "",
) -> KernelIR:
    """Convert linearized UOps to kernel IR over the given buffers.

    Parameters
    ----------
    uops : sequence of UOp
    buf_metas : sequence of BufferMeta
        The global buffers, in slot order; of another type than the kernel's, they are reinterpreted.
    offsets : mapping of int to int, optional
        Per slot, the element of its buffer that the kernel calls 0, counted in the kernel's elements.
    source : str
        Origin of the kernel in the user's program, for messages.

    Raises
    ------
    UnsupportedError
        For an op or dtype without hardware counterpart.
    """
    return _Converter(kernel_name(uops), tuple(buf_metas), offsets or {}, source).convert(uops)


class _Converter:
    def __init__(
        self, name: str, buffers: tuple[BufferMeta, ...], offsets: Mapping[int, int], source: str
    ) -> None:
        self.name = name
        self.buffers = buffers
        self.held = {m.idx: m.dtype for m in buffers}
        self.offsets = offsets
        self.source = source
        self.operations = {**IR_OPERATIONS, **mapped_operations()}
        self.values: dict[UOp, Any] = {}
        self.registers: dict[int, RegisterMeta] = {}
        self.variables: dict[str, tuple[tuple[Any, ...], IRVariable]] = {}
        self.levels = [_Level(None, None, None)]
        self.gates: list[IRValue] = []
        self.loops = 0

    def convert(self, uops: Sequence[UOp]) -> KernelIR:
        for uop in uops:
            self.visit(uop)
        if len(self.levels) != 1:
            raise self.unsupported(self.levels[-1].range, "a loop that never ends")
        kernel = KernelIR(
            buffers=self.buffers,
            loop_tree=LoopIR.from_items(tuple(self.levels[0].items)),
            registers=tuple(self.registers.values()),
            variables=tuple(node for _, node in sorted(self.variables.values(), key=lambda v: v[0])),
            name=self.name,
            source=self.source,
        )
        return verify(gate_indices(kernel))

    def visit(self, uop: UOp) -> None:
        storage, variable = storage_of(uop), variable_of(uop)
        if storage is not None:
            self.values[uop] = self.define(uop, storage)
        elif variable is not None:
            dtype = self.dtype(variable.dtype, uop)
            node = IRVariable(variable.name, variable.low, variable.high, dtype)
            self.values[uop] = self.variables.setdefault(variable.name, (variable.order, node))[1]
        elif uop.op in self.operations:
            self.values[uop] = self.operation(uop, self.operations[uop.op])
        elif (handler := _HANDLERS.get(uop.op)) is not None:
            handler(self, uop)
        elif uop.op not in _ORDERING:
            raise self.unsupported(uop)

    def define(self, uop: UOp, storage: Storage) -> Storage:
        if storage.space == "local":
            raise self.unsupported(uop, "local memory of a work group", _WITHOUT_LOCAL)
        if storage.space == "register":
            dtype = self.dtype(storage.dtype, uop)
            self.registers[storage.slot] = RegisterMeta(storage.slot, dtype, storage.size)
        return storage

    def constant(self, uop: UOp) -> None:
        value = uop.arg
        if uop.dtype.name.startswith("weak"):
            self.values[uop] = value
        else:
            self.values[uop] = _literal(value, self.dtype(uop.dtype, uop))

    def stack(self, uop: UOp) -> None:
        self.values[uop] = tuple(self.values[s] for s in uop.src)

    def select_lane(self, uop: UOp) -> None:
        lanes = uop.arg if isinstance(uop.arg, tuple) else (uop.arg,)
        if len(lanes) != 1:
            raise self.unsupported(uop, "a vector value")
        self.values[uop] = self.values[uop.src[0]][lanes[0]]

    def alias(self, uop: UOp) -> None:
        if uop.src[0] in self.values:
            self.values[uop] = self.values[uop.src[0]]

    def open_loop(self, uop: UOp) -> None:
        if not uop.src:
            raise self.unsupported(uop, "a loop without a bound", "use a loop whose trip count is known")
        size = self.value(uop.src[0])
        bound = int(size.value) if isinstance(size, IRConst) else size
        kind = "reduce" if uop.arg[-1] is AxisType.REDUCE else "loop"
        counter = IRCounter(bound, len(self.levels) - 1, self.loops, self.dtype(uop.dtype, uop))
        self.loops += 1
        self.levels.append(_Level(uop, counter, kind))
        self.values[uop] = counter

    def close_loop(self, uop: UOp) -> None:
        level = self.levels.pop()
        if level.range is None or len(uop.src) != 2 or uop.src[1] is not level.range:
            raise self.unsupported(
                uop, "a loop that ends on a condition", "use a loop whose trip count is known"
            )
        loop = LoopIR.from_items(tuple(level.items), counter=level.counter, axis_type=level.axis_type)
        self.levels[-1].items.append(loop)

    def open_gate(self, uop: UOp) -> None:
        self.gates.append(self.value(uop.src[0]))

    def close_gate(self, uop: UOp) -> None:
        self.gates.pop()

    def index(self, uop: UOp) -> None:
        base, index = self.values[uop.src[0]], self.value(uop.src[1])
        if isinstance(base, tuple):
            if not isinstance(index, IRConst):
                raise self.unsupported(uop, "a lane that is selected at run time")
            self.values[uop] = base[int(index.value)]
        elif isinstance(base, Storage) and len(uop.src) == 2:
            offset = self.offsets.get(base.slot, 0) if base.space == "global" else 0
            if offset:
                index = IROp("add", index.dtype, (index, IRConst(offset, index.dtype)))
            self.values[uop] = _Address(base, index)
        else:
            raise self.unsupported(uop, "an address of this form")

    def load(self, uop: UOp) -> None:
        address, dtype = self.address(uop), self.dtype(scalar_dtype(uop), uop)
        alt, gate = (self.value(uop.src[1]), self.value(uop.src[2])) if len(uop.src) == 3 else (None, None)
        for outer in self.gates:
            gate = outer if gate is None else IROp("and", DType.BOOL, (outer, gate))
            alt = alt or _literal(0, dtype)
        if address.storage.space == "register":
            register = IRRegLoad(dtype, address.storage.slot, self.register_index(address))
            self.emit(register)
            self.values[uop] = register
            return
        held = self.held[address.storage.slot]

        def read(index: IRValue) -> IRBufLoad:
            plain = held == dtype
            otherwise = alt if plain or gate is None else _literal(0, held)
            node = IRBufLoad(address.storage.slot, index, held, gate, otherwise)
            self.emit(node)
            return node

        value = load_as(read, address.index, held, dtype)
        if gate is not None and held != dtype:
            value = IROp("where", dtype, (gate, value, alt or _literal(0, dtype)))
        self.values[uop] = value

    def store(self, uop: UOp) -> None:
        address, value = self.address(uop), self.value(uop.src[1])
        gates = list(self.gates)
        if len(uop.src) == 3 and self.value(uop.src[2]) not in gates:
            gates.append(self.value(uop.src[2]))
        gate: IRValue | None = None
        for inner in gates:
            gate = inner if gate is None else IROp("and", DType.BOOL, (gate, inner))
        if address.storage.space == "global":
            held = self.held[address.storage.slot]
            if storage_bits(held) != storage_bits(value.dtype):
                raise self.unsupported(
                    uop,
                    f"write of {value.dtype} into a buffer of {held}",
                    "write a tensor of its own and bitcast that",
                )
            if held != value.dtype:
                value = IROp("bitcast", held, (value,))
            self.emit(IRBufStore(address.storage.slot, address.index, value, held, gate))
        else:
            self.emit(IRRegStore(value, address.storage.slot, self.register_index(address), gate))

    def cast(self, uop: UOp) -> None:
        source, dtype = self.values[uop.src[0]], self.dtype(scalar_dtype(uop), uop)
        if isinstance(source, bool | int | float):
            self.values[uop] = _literal(source, dtype)
            return
        value = self.value(uop.src[0])
        op = "cast" if uop.op is Ops.CAST else "bitcast"
        if op == "cast" and isinstance(value, IRConst):
            self.values[uop] = _literal(value.value, dtype)
        else:
            self.values[uop] = value if value.dtype == dtype else IROp(op, dtype, (value,))

    def multiply_add(self, uop: UOp) -> None:
        dtype = self.dtype(scalar_dtype(uop), uop)
        a, b, c = (self.value(s) for s in uop.src)
        if dtype.is_float:
            self.values[uop] = IROp("add", dtype, (IROp("mul", dtype, (a, b)), c))
        else:
            self.values[uop] = IROp("mulacc", dtype, (a, b, c))

    def operation(self, uop: UOp, op: str) -> IROp:
        return IROp(op, self.dtype(scalar_dtype(uop), uop), tuple(self.value(s) for s in uop.src))

    def custom(self, uop: UOp) -> None:
        if not isinstance(uop.arg, tuple):
            raise self.unsupported(uop, hint="use tg2hdl.custom_op")
        (name, *types), result = uop.arg, self.dtype(scalar_dtype(uop), uop)
        taken = [self.dtype(dtype, uop) for dtype in types]
        found = [v if isinstance(v := self.values.get(s), tuple) else self.value(s) for s in uop.src]
        lanes = {len(v) for v in found if isinstance(v, tuple)}
        made = tuple(
            IROp(name, result, _narrowed([v[k] if isinstance(v, tuple) else v for v in found], taken))
            for k in range(max(lanes, default=1))
        )
        self.values[uop] = made if lanes else made[0]

    def emit(self, item: IRItem) -> None:
        self.levels[-1].items.append(item)

    def address(self, uop: UOp) -> _Address:
        address = self.values.get(uop.src[0])
        if not isinstance(address, _Address):
            raise self.unsupported(uop, "access of more than one element, or through a reinterpreted buffer")
        held, wanted = address.storage.dtype, scalar_dtype(uop if uop.op is Ops.LOAD else uop.src[1])
        if held != wanted:
            raise self.unsupported(uop, f"access of a buffer of {held} as {wanted}")
        return address

    def register_index(self, address: _Address) -> IRValue | None:
        if address.storage.size == 1 and isinstance(address.index, IRConst):
            return None
        return address.index

    def value(self, uop: UOp) -> Any:
        value = self.values.get(uop)
        if value is None or isinstance(value, Storage | _Address | tuple | bool | int | float):
            raise self.unsupported(uop, "an operand that is not a scalar")
        return value

    def dtype(self, dtype: Any, uop: UOp) -> DType:
        try:
            return DType.from_tinygrad(dtype)
        except UnsupportedError as error:
            raise UnsupportedError(error.message, where=self.where(uop), hint=error.hint) from None

    def where(self, uop: UOp) -> str:
        origin = f", made by {self.source}" if self.source else ""
        return f"kernel {self.name}, op {uop.op.name}, dtype {uop.dtype}{origin}"

    def unsupported(self, uop: UOp | None, what: str = "", hint: str | None = None) -> UnsupportedError:
        assert uop is not None
        return UnsupportedError(
            f"no hardware for tinygrad op {uop.op.name}" + (f": {what}" if what else ""),
            where=self.where(uop),
            hint=hint or _WAYS_OUT.get(uop.op, _DEFAULT_WAY_OUT),
        )


def _literal(value: Any, dtype: DType) -> IRConst:
    if dtype.is_float:
        return IRConst(dtype.bits_to_const(dtype.const_to_bits(float(value))), dtype)
    if dtype.is_bool:
        return IRConst(bool(value), dtype)
    if isinstance(value, float) and not math.isfinite(value):
        value = 0
    return IRConst(dtype.wrap(int(value)), dtype)


def _narrowed(values: Sequence[IRValue], dtypes: Sequence[DType]) -> tuple[IRValue, ...]:
    """Operands of `custom_op` in their own types."""
    return tuple(_narrow(value, dtype) for value, dtype in zip(values, dtypes, strict=True))


def _narrow(value: IRValue, dtype: DType) -> IRValue:
    if isinstance(value, IRConst):
        return _literal(value.value, dtype)
    if isinstance(value, IROp) and value.op == "cast" and value.srcs[0].dtype == dtype:
        return value.srcs[0]
    if isinstance(value, IROp) and value.op == "where":
        condition, *ends = value.srcs
        return IROp("where", dtype, (condition, *(_narrow(end, dtype) for end in ends)))
    return IROp("cast", dtype, (value,))


_HANDLERS = {
    Ops.CONST: _Converter.constant,
    Ops.STACK: _Converter.stack,
    Ops.AFTER: _Converter.alias,
    Ops.RANGE: _Converter.open_loop,
    Ops.END: _Converter.close_loop,
    Ops.IF: _Converter.open_gate,
    Ops.ENDIF: _Converter.close_gate,
    Ops.INDEX: _Converter.index,
    Ops.LOAD: _Converter.load,
    Ops.STORE: _Converter.store,
    Ops.CAST: _Converter.cast,
    Ops.BITCAST: _Converter.cast,
    Ops.CUSTOMI: _Converter.custom,
    Ops.MULACC: _Converter.multiply_add,
    **({Ops.GEP: _Converter.select_lane} if hasattr(Ops, "GEP") else {}),
}
