"""Whether a machine executes an instruction: conditions that hardware, simulator and assembler share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from types import SimpleNamespace
from typing import Any

from tg2hdl_tpu.config import ADDRESS_BITS, Config
from tg2hdl_tpu.isa import (
    FIELDS,
    FIRST_VECTOR,
    GATHER,
    OF_PRODUCTS,
    OPCODES,
    PRE,
    SUMS,
    Instruction,
    fields_of,
)
from tg2hdl_tpu.vector_ops import PARTS, VECTOR_OPS

__all__ = ["illegal", "is_illegal", "problem"]


def illegal(f: Any, config: Config) -> Iterator[tuple[Any, str]]:
    """Conditions under which a word is not an instruction of a machine: the trap `ILLEGAL`.

    Parameters
    ----------
    f : object
        Has the fields as attributes: integers, or values of Amaranth, for the decoder of the hardware.
    """

    def one_of(names: Iterable[str]) -> Any:
        return reduce(or_, [f.opcode == OPCODES[name].code for name in names])

    there = [op.name for op in VECTOR_OPS if OPCODES[op.name].exists(config)]
    last = OPCODES[there[-1]].code
    vector = (f.opcode >= FIRST_VECTOR) & (f.opcode < last + 1)
    unknown = [op.name for op in VECTOR_OPS if op.name not in there and OPCODES[op.name].code < last]
    long = one_of(op.name for op in VECTOR_OPS if op.is_long)
    others = [name for name, opcode in OPCODES.items() if opcode.form != "vector" and opcode.exists(config)]
    of_sums = [name for name in others if OPCODES[name].form == "sums"]
    weights, tile = (f.opcode == OPCODES[name].code for name in ("weights", "tile"))
    crossbar = f.pre == PRE.index("xlu")
    shifts = crossbar & (f.xlu < 2)
    uses_k = one_of(op.name for op in VECTOR_OPS if op.uses_k and op.name in there)
    combines = (f.levels != 0) | (f.accumulate == 1)
    yield (vector == 0) & (one_of(others) == 0), "no instruction has this opcode"
    if unknown:
        yield one_of(unknown), "this machine does not have the operation"
    yield one_of(["set", "lda"]) & (f.dst_reg == 0), "a0 is always zero"
    yield (f.opcode == OPCODES["lda"].code) & (f.k >= config.lanes), "no such lane"
    yield (one_of(["weights", "load", "store", *of_sums]) | vector) & (f.count == 0), "no rows"
    yield weights & (f.count > config.rows), f"more tile rows than the {config.rows} of the machine"
    yield (
        (weights | tile) & ((f.pre == 0) | (f.pre == 3)),
        f"weights are words (mxu) or packed ({config.packed_mode})",
    )
    for pre, per_row in ((1, config.lanes), (2, config.packed)):
        if config.rows * config.columns > per_row:
            yield (
                tile & (f.pre == pre),
                f"a tile has {config.rows * config.columns} elements, a row {per_row}",
            )
    # A matrix unit of floats has adders of its own, and no other parts of a lane.
    products = vector & ((f.pre == 1) | (f.pre == 2)) if config.matrix_is_float else None
    for part in PARTS:
        if not getattr(config, part):
            wrong = one_of(op.name for op in VECTOR_OPS if op.part == part)
            if products is not None and part == "float":
                wrong = wrong & ((products & one_of(OF_PRODUCTS)) == 0)
            yield wrong, f"this machine has no {part}"
    special = (f.relu == 1) | combines | (f.pack == 1) | (f.reduce != 0) | (f.pre == 1) | (f.pre == 2)
    if products is None:
        yield long & special, "this operation has no relu, acc, reduce, pack or mxu"
    else:
        what, width = f"a product of {config.matrix_format}", config.columns.bit_length() - 1
        yield products & (one_of(OF_PRODUCTS) == 0), f"{what} is for {' or '.join(OF_PRODUCTS)}"
        yield long & (products == 0) & special, "this operation has no relu, acc, reduce or pack"
        yield products & (combines | (f.pack == 1) | (f.reduce != 0)), f"{what} has no acc, reduce or pack"
        wide = (f.segment < config.levels - width) & (f.constant == 0) & (f.opcode == OPCODES["fadd"].code)
        yield products & wide, f"{what} adds {config.columns} words of b: use seg={config.columns} or less"
    if config.packed_mode == "mxu":
        packed = (weights | tile | vector) & (f.pre == PRE.index("mxu8"))
        yield packed, f"elements of {config.matrix_format} are words (mxu)"
    yield vector & (f.segment > config.levels), "no such segment"
    yield vector & (f.levels >= config.lanes), "no such level of the reduction"
    yield vector & combines & (f.reduce == 0), "levels or acc without reduce"
    yield vector & (combines == 0) & (f.reduce != 0), "reduce without levels or acc"
    lowest = reduce(or_, [f.levels == (1 << k) - 1 for k in range(1, config.levels + 1)])
    yield vector & (f.pack == 1) & (lowest == 0), "pack needs the lowest levels"
    gather = vector & (crossbar == 0) & (f.xlu == 1)
    without = vector & (crossbar == 0) & (f.xlu > 1)
    if config.output_stationary:
        without = without & (((f.pre == 1) & (f.xlu == SUMS)) == 0)
        for name in of_sums:
            this = f.opcode == OPCODES[name].code
            unused = [u for u in FIELDS if u not in ("opcode", *OPCODES[name].uses)]
            yield this & reduce(or_, [getattr(f, u) != 0 for u in unused]), f"a field that {name} has not"
        preload, outer = (f.opcode == OPCODES[name].code for name in ("preload", "outer"))
        yield preload & (f.count > config.rows), f"more rows than the {config.rows} of the sums"
        yield outer & (f.pre != PRE.index("mxu8")), f"operands are packed ({config.packed_mode})"
    yield without, "a mode of the crossbar without it"
    yield gather & (f.count > config.lanes), f"more rows than the {config.lanes} indices"
    yield gather & (f.a_stride != 0), "gather has no stride"
    if config.levels % 2:
        yield vector & crossbar & (f.xlu == 2), f"{config.lanes} lanes are not a square to transpose"
    yield vector & crossbar & (f.xlu == 3) & (f.constant == 1), "permute needs indices in b"
    yield vector & shifts & (f.k >= config.lanes), "no such lane"
    yield vector & shifts & uses_k, "the operation and the crossbar both need k"
    yield vector & (uses_k == 0) & (shifts == 0) & (f.k != 0), "a parameter that nothing uses"
    yield vector & (f.constant == 1) & (f.b_reg != 0), "a constant has no address register"


def is_illegal(word: int, config: Config) -> bool:
    """Whether a machine traps on a word.

    Parameters
    ----------
    word : int
        Instruction as the program memory has it.
    config : Config
        The machine.
    """
    return any(condition for condition, _ in illegal(SimpleNamespace(**fields_of(word)), config))


def problem(i: Instruction, config: Config) -> str | None:
    """Say why a machine cannot execute an instruction, as far as its constants decide, or return None.

    Parameters
    ----------
    i : Instruction
    config : Config
        The machine.
    """
    if not (i.opcode.exists(config) and (config.output_stationary or not i.reads_sums)):
        return f"this machine has no {i.opcode.part or 'output_stationary'}"
    fields = SimpleNamespace(
        opcode=i.opcode.code, **{name: getattr(i, name) for name in FIELDS if name != "opcode"}
    )
    for condition, reason in illegal(fields, config):
        if condition:
            return reason
    form = i.opcode.form
    if form == "vector":
        return _vector_addresses(i, config)
    if form == "weights":
        words = config.packed if i.pre == 2 else config.lanes
        if i.op == "tile":
            tiles = words // (config.rows * config.columns)
            return _outside("a", i.a, i.a_reg, config.vmem_rows * tiles)
        per_row = words // config.columns
        return _run_outside("a", i.a, i.a_reg, i.a_stride, i.count, config.vmem_rows * per_row)
    if form in ("lda", "index"):
        return _outside("a", i.a, i.a_reg, config.vmem_rows)
    if i.op == "preload":
        return _run_outside("a", i.a, i.a_reg, i.a_stride, i.count, config.vmem_rows)
    if i.op == "outer":
        a, b = (config.vmem_rows * config.packed // size for size in (config.rows, config.columns))
        inside = _run_outside("a", i.a, i.a_reg, i.a_stride, i.count, a)
        return inside or _run_outside("b", i.b_address, i.b_reg, i.b_stride, i.count, b)
    if form == "dma":
        start, register = (i.dst, i.dst_reg) if i.op == "load" else (i.a, i.a_reg)
        inside = _run_outside("VMEM row", start, register, 1, i.count, config.vmem_rows)
        return inside or _run_outside("external row", i.b, i.b_reg, 1, i.count, config.xmem_rows)
    limit = 1 << (ADDRESS_BITS - 1)
    if "dst" in i.opcode.uses and i.dst >= config.imem_depth:
        return f"program address {i.dst} of {config.imem_depth}"
    if i.op == "set" and i.a_reg == 0 and not -limit <= i.b < limit:
        return f"constant {i.b} beyond {ADDRESS_BITS} bits"
    if i.op == "loop" and i.a_reg == 0 and not 1 <= i.b < limit:
        return f"{i.b} iterations"
    return None


def _outside(what: str, address: int, register: int, size: int) -> str | None:
    return f"{what} is {address} of {size}" if register == 0 and not 0 <= address < size else None


def _run_outside(what: str, start: int, register: int, stride: int, count: int, size: int) -> str | None:
    return _outside(what, start, register, size) or _outside(
        what, start + stride * (count - 1), register, size
    )


def _vector_addresses(i: Instruction, config: Config) -> str | None:
    op = i.opcode.op
    assert op is not None
    per_row = {1: config.lanes // config.rows, 2: config.packed // config.rows}.get(i.pre, 1)
    stride = 0 if i.accumulate else i.dst_stride
    reason = _run_outside("dst", i.dst, i.dst_reg, stride, i.count, config.vmem_rows << i.segment)
    if i.reads_sums:
        reason = reason or _run_outside("row of the sums", i.a, i.a_reg, i.a_stride, i.count, config.rows)
    elif i.pre == PRE.index("xlu") or i.xlu != GATHER:  # else the indices decide
        reason = reason or _run_outside("a", i.a, i.a_reg, i.a_stride, i.count, config.vmem_rows * per_row)
    if not i.constant and (op.reads_b or (i.pre == 3 and i.xlu == 3)):
        reason = reason or _run_outside("b", i.b_address, i.b_reg, i.b_stride, i.count, config.vmem_rows)
    return reason
