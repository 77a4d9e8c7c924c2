"""Records that stages hand to each other."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import signed, unsigned
from amaranth.lib import data

from tg2hdl_tpu.config import ADDRESS_BITS, Config
from tg2hdl_tpu.isa import FIELDS, OPCODES

__all__ = [
    "PC_BITS",
    "fields",
    "handed_layout",
    "is_one_of",
    "part_logs",
    "prepared_layout",
    "resolved_layout",
    "row_bits",
    "row_layout",
]

PC_BITS = 16

#: Fields that the row stage takes from the instruction as they are.
_KEPT = (
    "opcode",
    "dst_stride",
    "a_stride",
    "pre",
    "constant",
    "relu",
    "levels",
    "accumulate",
    "pack",
    "reduce",
    "segment",
    "k",
    "xlu",
)


def fields(word: Any) -> SimpleNamespace:
    """Return the fields of an instruction word as values."""
    values = {}
    for field in FIELDS.values():
        value = word[field.low : field.low + field.width]
        values[field.name] = value.as_signed() if field.signed else value
    return SimpleNamespace(**values)


def handed_layout() -> data.StructLayout:
    """An instruction as the sequencer hands it over: addresses, and the registers that are added to them."""
    registers = {f"{name}_register": signed(ADDRESS_BITS) for name in ("dst", "a", "b")}
    return _layout({"dst": 15, "a": 15, "b": signed(32), **registers})


def resolved_layout() -> data.StructLayout:
    """An instruction in the row stage, with addresses that are sums."""
    return _layout({"dst": signed(28), "a": signed(28), "b": signed(34)})


def _layout(addresses: dict[str, Any]) -> data.StructLayout:
    members: dict[str, Any] = {
        "pc": PC_BITS,
        **addresses,
        "b_stride": signed(16),
        "shift": 3,  # log2 of the parts of a row that `a` counts
        "further": 10,  # rows after the first
        "gathers": 1,
        "alone": 1,  # has one row
    }
    for name in _KEPT:
        field = FIELDS[name]
        members[name] = signed(field.width) if field.signed else unsigned(field.width)
    return data.StructLayout(members)


#: Fields of a row in a machine with sums: it may add to them, set some, or read some.
_SUMS = {"outer": 1, "preload": 1, "drain": 1, "b_part": 7}


def _parts(config: Config) -> dict[str, Any]:
    """State of a row whose crossbar makes permuted rows in parts: that it makes one, and which."""
    return {"part_crosses": 1, "cross": (config.crossings - 1).bit_length()}


def _controls(config: Config) -> dict[str, Any]:
    return {
        "kind": 2,
        "weights": 1,
        "whole": 1,
        "index": 5,
        "lda": 1,
        "indices": 1,  # the row is that of `index`
        "part": 7,  # segment of the matrix unit in the row
        "opcode": 7,
        "pre": 2,
        "xlu": 2,
        "k": 6,
        "constant": 1,
        "operand": 1,  # the operation has a second operand
        "b": signed(32),
        "relu": 1,
        "accumulate": 1,
        "first": 1,
        "reduce": 2,
        "levels": 5,
        "pack": 1,
        "pc": PC_BITS,
        "mask": config.lanes,
        "writes": 1,
        "checked": 1,  # the data may trap
        **(_parts(config) if config.crossings > 1 else {}),
        **(_SUMS if config.output_stationary else {}),
    }


def row_layout(config: Config) -> data.StructLayout:
    """A row in the pipeline."""
    return data.StructLayout(
        _controls(config)
        | {
            "row": row_bits(config),
            "valid": 1,  # a row of a vector instruction
            "hold": 1,  # the cycle that reads the old destination
        }
    )


def prepared_layout(config: Config) -> data.StructLayout:
    """A row that is to be issued, or a transfer."""
    bits = row_bits(config)
    return data.StructLayout(
        _controls(config)
        | {
            "a_row": bits,
            "b_row": bits,
            "to": bits,
            "straight": config.lanes,  # lanes that are read to write the mask
            "reads_a": 1,
            "a_whole": 1,  # of the first operand all lanes are read, not only these
            "b_whole": 1,
            "vector": 1,
            "reads_b": 1,
            "reads_c": 1,
            "wrong": 4,  # addresses are, as far as it is known without a sum
            "bad": 1,
            "outside_bad": 1,
            "transfer": 1,
            "load": 1,
            "first_row": bits,
            "final": max(bits, 10) + 1,
            "further": 10,  # rows after the first
            "count": 10,
            "outside": signed(34),
            "outside_final": signed(35),
        }
    )


def row_bits(config: Config) -> int:
    """Bits of the number of a row."""
    return (config.vmem_rows - 1).bit_length()


def part_logs(config: Config, pre: int) -> list[int]:
    """Log2 of the parts that a row has: for a row of the matrix unit, for a row of weights, for a tile.

    Parameters
    ----------
    config : Config
    pre : int
        Format of the words: 1 for words of 32 bits, 2 for packed bytes.
    """
    words = {1: config.lanes, 2: config.packed}[pre]
    sizes = (config.rows, config.columns, config.rows * config.columns)
    return [max(1, words // size).bit_length() - 1 for size in sizes]


def is_one_of(opcode: Any, names: Iterable[str]) -> Any:
    """Whether an opcode is one of some instructions.

    Parameters
    ----------
    opcode
        Value of the opcode.
    names : iterable of str
        Instructions.
    """
    return reduce(or_, [opcode == OPCODES[name].code for name in names])
