"""The instructions: fields, opcodes and encoding.

Decoder, assembler, disassembler, names in traces, page of instructions and simulator are made from these tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import reduce
from operator import or_
from typing import Any

from tg2hdl_ir import InputError
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.vector_ops import VECTOR_OPS, VectorOp, uses_zero_point

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
    "predecoded",
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
