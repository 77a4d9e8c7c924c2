"""The instructions: fields, opcodes and checks.

Decoder, assembler, disassembler, names in traces, page of instructions and simulator are made from these tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import reduce
from operator import or_
from types import SimpleNamespace
from typing import Any

from tg2hdl_ir import InputError
from tg2hdl_tpu.config import ADDRESS_BITS, Config
from tg2hdl_tpu.vector_ops import PARTS, VECTOR_OPS, VectorOp, uses_zero_point

__all__ = [
    "FIELDS",
    "FIRST_VECTOR",
    "GATHER",
    "INSTRUCTION_BITS",
    "OF_PRODUCTS",
    "OPCODES",
    "PRE",
    "PREDECODED",
    "PRODUCTS",
    "REDUCE",
    "SUMS",
    "XLU",
    "Instruction",
    "InstructionField",
    "Opcode",
    "Trap",
    "decode",
    "encode",
    "fields_of",
    "illegal",
    "is_illegal",
    "predecoded",
    "problem",
]

INSTRUCTION_BITS = 128
FIRST_VECTOR = 32
#: Stage before the operation; of the matrix unit: words, and elements packed, which `Config.packed_mode` names.
PRE = ("none", "mxu", "mxu8", "xlu")
XLU = ("rotate", "broadcast", "transpose", "permute")
#: Value of `xlu` without crossbar: rows of `a` by index.
GATHER = 1
#: Value of `xlu` with `mxu`: the first operand is a row of the sums.
SUMS = 2
REDUCE = ("none", "add", "max", "min")
#: Kind of the rows that a matrix unit of floats computes (`VectorOp.kind` has the others), and their operations.
PRODUCTS = 3
OF_PRODUCTS = ("copy", "fadd")


class Trap(IntEnum):
    """Why a machine stopped; 0 is `halt`."""

    NONE = 0
    ILLEGAL = 1  # no instruction of this machine
    VMEM = 2  # address outside the scratchpad
    XMEM = 3  # address outside the external memory
    PROGRAM = 4  # program counter outside the program memory
    LOOP = 5  # loop stack over- or underflow, or a count below 1
    INDEX = 6  # index of a permutation outside the row
    FORMAT = 7  # operand of the matrix unit beyond the format of its elements
    REGISTER = 8  # address register beyond 24 bits
    LIMIT = 9  # cycle limit of the run


@dataclass(frozen=True)
class InstructionField:
    """A field of an instruction word, from its lowest bit upwards."""

    name: str
    low: int
    width: int
    signed: bool
    summary: str


def _fields() -> Iterator[InstructionField]:
    low = 0
    for name, width, signed, summary in (
        ("opcode", 7, False, "operation"),
        ("dst", 15, False, "address of the destination: row or segment; program address of a branch"),
        ("dst_reg", 3, False, "address register to add; destination of scalar instructions"),
        ("dst_stride", 8, True, "added for each row"),
        ("a", 15, False, "address of the first operand: row, or segment of the matrix unit"),
        ("a_reg", 3, False, "address register to add; source of scalar instructions"),
        ("a_stride", 8, True, "added for each row"),
        ("b", 32, True, "constant; or address (low 16 bits) and stride (high 16 bits) of the second operand"),
        ("b_reg", 3, False, "address register to add"),
        ("count", 10, False, "rows"),
        ("pre", 2, False, "0 pass, 1 mxu, 2 mxu8 (or mxu16, by `matrix_format`; not with fp32), 3 crossbar"),
        ("constant", 1, False, "b is a constant"),
        ("relu", 1, False, "negative results become 0"),
        ("levels", 5, False, "levels of the reduction"),
        ("accumulate", 1, False, "combine all rows"),
        ("pack", 1, False, "results of the groups side by side"),
        ("reduce", 2, False, "0 none, 1 add, 2 max, 3 min"),
        ("segment", 3, False, "log2 of lanes / lanes that are written"),
        ("k", 6, False, "parameter: lanes to rotate, lane to broadcast, shift"),
        (
            "xlu",
            2,
            False,
            "0 rotate, 1 broadcast, 2 transpose, 3 permute; without crossbar, 1 gathers; with mxu, 2 reads sums",
        ),
    ):
        yield InstructionField(name, low, width, signed, summary)
        low += width


FIELDS = {field.name: field for field in _fields()}
assert sum(f.width for f in FIELDS.values()) == INSTRUCTION_BITS

#: Fields by part of an instruction; fields that an opcode does not name must be zero.
_DST = ("dst", "dst_reg", "dst_stride")
_A = ("a", "a_reg", "a_stride")
_B = ("b", "b_reg", "constant")
_SHAPE = ("count", "pre", "relu", "levels", "accumulate", "pack", "reduce", "segment", "k", "xlu")


@dataclass(frozen=True)
class Opcode:
    """An instruction of the table: its code, form, the fields it uses, and its meaning."""

    name: str
    code: int
    form: str  # how it is written and who executes it: scalar | vector | weights | index | lda | dma | sums
    uses: tuple[str, ...]
    summary: str
    op: VectorOp | None = None
    part: str = ""  # the unit that a machine must have for it, as `Config` names it

    def exists(self, config: Config) -> bool:
        """Whether a machine has the units that it needs."""
        return not self.part or bool(getattr(config, self.part))


def _part(op: VectorOp) -> str:
    return op.part if uses_zero_point(op) else ""


def _opcodes() -> Iterator[Opcode]:
    scalar: tuple[tuple[str, tuple[str, ...], str], ...] = (
        ("halt", (), "wait for all work, then stop"),
        ("set", ("dst_reg", "a_reg", "b"), "dst_reg = a_reg + b"),
        ("loop", ("a_reg", "b"), "repeat up to `end`, a_reg + b times"),
        ("end", (), "next iteration, or out of the loop"),
        ("jump", ("dst",), "continue at dst"),
        ("bz", ("dst", "a_reg"), "continue at dst if a_reg is 0"),
        ("bnz", ("dst", "a_reg"), "continue at dst if a_reg is not 0"),
        ("bneg", ("dst", "a_reg"), "continue at dst if a_reg is negative"),
    )
    code = 1  # memory that was never written is not a program
    for name, uses, summary in scalar:
        yield Opcode(name, code, "scalar", uses, summary)
        code += 1
    yield Opcode(
        "index", 20, "index", ("a", "a_reg"), "what `gather` adds to the address of row i = lane i of row a"
    )
    yield Opcode("lda", 12, "lda", ("dst_reg", "a", "a_reg", "k"), "dst_reg = lane k of row a")
    yield Opcode("weights", 16, "weights", (*_A, "count", "pre"), "tile row i = segment a, for i < n")
    yield Opcode(
        "tile",
        17,
        "weights",
        ("a", "a_reg", "pre"),
        "all tile rows = segment a of rows x columns words or packed elements",
    )
    yield Opcode(
        "load", 18, "dma", ("dst", "dst_reg", "b", "b_reg", "count"), "VMEM rows from external memory"
    )
    yield Opcode("store", 19, "dma", ("a", "a_reg", "b", "b_reg", "count"), "VMEM rows to external memory")
    for code, op in enumerate(VECTOR_OPS, FIRST_VECTOR):
        yield Opcode(op.name, code, "vector", (*_DST, *_A, *_B, *_SHAPE), op.summary, op, _part(op))
    # They take the way of a vector instruction that writes nothing, so they have codes of its range.
    part = "output_stationary"
    yield Opcode(
        "preload", 126, "sums", (*_A, "count"), "sums of row i = first words of row a, for i < n", part=part
    )
    yield Opcode(
        "outer",
        127,
        "sums",
        (*_A, "b", "b_reg", "count", "pre", "accumulate"),
        "sums += elements of segment a times elements of segment b, n times; from 0 on without acc",
        part=part,
    )


OPCODES = {opcode.name: opcode for opcode in _opcodes()}
_BY_CODE = {opcode.code: opcode for opcode in OPCODES.values()}


@dataclass(frozen=True)
class Instruction:
    """An instruction; the fields are those of `FIELDS`, in the units of the machine.

    Parameters
    ----------
    op : str
        Name of the instruction.
    dst, a, b : int
        Addresses of the result and the operands; `b` may be a constant.
    dst_reg, a_reg, b_reg : int
        Address registers to add.
    dst_stride, a_stride : int
        Added to the addresses for each row.
    count : int
        Rows.
    pre, constant, relu, levels, accumulate, pack, reduce, segment, k, xlu : int
        Modes of the units, see `FIELDS`.
    """

    op: str
    dst: int = 0
    dst_reg: int = 0
    dst_stride: int = 0
    a: int = 0
    a_reg: int = 0
    a_stride: int = 0
    b: int = 0
    b_reg: int = 0
    count: int = 0
    pre: int = 0
    constant: int = 0
    relu: int = 0
    levels: int = 0
    accumulate: int = 0
    pack: int = 0
    reduce: int = 0
    segment: int = 0
    k: int = 0
    xlu: int = 0

    @property
    def opcode(self) -> Opcode:
        """Entry of the table."""
        return OPCODES[self.op]

    @property
    def b_address(self) -> int:
        """Address of the second operand that is a row."""
        return self.b & 0xFFFF

    @property
    def b_stride(self) -> int:
        """Stride of the second operand that is a row."""
        return self.b >> 16

    @property
    def reads_sums(self) -> bool:
        """Whether its first operand is rows of the sums of the matrix unit."""
        return self.opcode.form == "vector" and PRE[self.pre] == "mxu" and self.xlu == SUMS


_NAMES = tuple(field.name for field in fields(Instruction))[1:]


def encode(instruction: Instruction) -> int:
    """Return the instruction word.

    Raises
    ------
    InputError
        When a value does not fit its field, or a field is set that the instruction does not use.
    """
    opcode = instruction.opcode
    word = opcode.code
    for name in _NAMES:
        value = getattr(instruction, name)
        field = FIELDS[name]
        low, high = (
            (-(1 << field.width >> 1), (1 << field.width >> 1) - 1)
            if field.signed
            else (0, (1 << field.width) - 1)
        )
        if value and name not in opcode.uses:
            raise InputError(f"{instruction.op} has no {name}", where="instruction")
        if not low <= value <= high:
            raise InputError(
                f"{name} of {instruction.op} is {value}", where="instruction", hint=f"use {low} to {high}"
            )
        word |= (value & ((1 << field.width) - 1)) << field.low
    return word


def decode(word: int) -> Instruction:
    """Return the instruction of a word.

    Raises
    ------
    InputError
        For an unknown opcode, or bits in fields that the instruction does not use.
    """
    if not 0 <= word < 1 << INSTRUCTION_BITS:
        raise InputError(
            f"an instruction word has {INSTRUCTION_BITS} bits",
            where="instruction",
            hint=f"give an integer from 0 to 2**{INSTRUCTION_BITS} - 1",
        )
    opcode = _BY_CODE.get(word & 0x7F)
    if opcode is None:
        raise InputError(f"no instruction has the opcode {word & 0x7F}", where=f"instruction {word:032x}")
    values = fields_of(word)
    del values["opcode"]
    for name, value in values.items():
        if value and name not in opcode.uses:
            raise InputError(f"{opcode.name} has no {name}", where=f"instruction {word:032x}")
    return Instruction(opcode.name, **values)


def fields_of(word: int) -> dict[str, int]:
    """Return all fields of a word, whether it is an instruction or not."""
    values = {}
    for field in FIELDS.values():
        value = word >> field.low & ((1 << field.width) - 1)
        values[field.name] = (
            value - (1 << field.width) if field.signed and value >> (field.width - 1) else value
        )
    return values


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


#: Flags of each word in the program memory, with the names of the instructions that have them.
PREDECODED: dict[str, tuple[str, ...]] = {
    "rows": tuple(name for name, opcode in OPCODES.items() if opcode.form != "scalar"),
    **{name: (name,) for name in ("set", "loop", "end", "jump", "bz", "bnz", "bneg", "halt")},
    **{name: (name,) for name in ("lda", "weights", "tile")},
    "wide": ("load", "store"),
}


def predecoded(f: Any) -> Iterator[Any]:
    """Return the bits of `PREDECODED`; `f` is as of `illegal`."""
    for name, names in PREDECODED.items():
        low = [OPCODES[n].code for n in names if OPCODES[n].code < FIRST_VECTOR]
        bit = reduce(or_, [f.opcode == code for code in low], False)
        bit = bit | (f.opcode >= FIRST_VECTOR) if name == "rows" else bit
        yield bit | (f.constant == 1) if name == "wide" else bit


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
    fields = SimpleNamespace(opcode=i.opcode.code, **{name: getattr(i, name) for name in _NAMES})
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
