"""From bundles back to TASM; `assemble` gives the same bundle again."""

from __future__ import annotations

import struct
from dataclasses import asdict
from typing import Any

import numpy as np

from tg2hdl_ir import InputError
from tg2hdl_tpu.bundle import Bundle
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.instruction_checks import problem
from tg2hdl_tpu.isa import GATHER, PRE, REDUCE, XLU, Instruction, decode

__all__ = ["bundle_facts", "disassemble", "format_instruction"]


def disassemble(bundle: Bundle, *, name: str = "bundle") -> str:
    """Return a bundle as TASM.

    Parameters
    ----------
    bundle : Bundle
    name : str
        Of the file, for errors.

    Raises
    ------
    InputError
        For a word that is not an instruction of the machine.
    """
    config = bundle.config
    program = []
    for at, word in enumerate(bundle.program):
        place = f"{name}, instruction {at}"
        try:
            instruction = decode(word)
        except InputError as error:
            raise InputError(error.message, where=place) from None
        reason = problem(instruction, config)
        if reason:
            raise InputError(f"{instruction.op}: {reason}", where=place)
        program.append(instruction)
    targets = {i.dst for i in program if i.opcode.form == "scalar" and "dst" in i.opcode.uses}
    lines = []
    for region in bundle.data:
        words = region.rows.reshape(-1)
        # Zeros at the end of the last row may be left out.
        used = max(int(np.flatnonzero(words)[-1]) + 1 if words.any() else 0, len(words) - config.lanes + 1)
        lines.append(f".{region.space} {region.start} = {' '.join(map(str, words[:used].tolist()))}")
    for at, instruction in enumerate(program):
        label = f"L{at}:" if at in targets else ""
        lines.append(f"{label:8}{format_instruction(instruction, config, size=len(program))}".rstrip())
    lines += [f".out {o.name} {o.space} {o.start} {o.count}" for o in bundle.outputs]
    return "\n".join([*lines, ""])


def bundle_facts(bundle: Bundle) -> dict[str, Any]:
    """Return the machine, the instructions and the regions of a bundle as plain data."""
    size = len(bundle.program)
    return {
        "config": asdict(bundle.config),
        "instructions": [
            {"word": f"{w:032x}", "text": format_instruction(decode(w), bundle.config, size=size)}
            for w in bundle.program
        ],
        "data": [{"memory": r.space, "start": r.start, "rows": len(r.rows)} for r in bundle.data],
        "outputs": [
            {"name": o.name, "memory": o.space, "start": o.start, "rows": o.count} for o in bundle.outputs
        ],
    }


def _memory(space: str, address: int, register: int, stride: int = 1) -> str:
    text = f"{space}[{address}" + (f"+a{register}" if register else "")
    return text + (f":{stride}]" if stride != 1 else "]")


def _gathers(i: Instruction) -> bool:
    return i.opcode.form == "vector" and PRE[i.pre] != "xlu" and i.xlu == GATHER


def _constant(i: Instruction) -> str:
    op = i.opcode.op
    if op is not None and op.part in ("float", "functions"):
        value = struct.unpack("<f", struct.pack("<i", i.b))[0]
        if np.isfinite(value):
            return f"#{np.float32(value)!s}" if "." in str(np.float32(value)) else f"#0x{i.b & 0xFFFFFFFF:x}"
        return f"#0x{i.b & 0xFFFFFFFF:x}"
    return f"#{i.b}"


def format_instruction(i: Instruction, config: Config, *, size: int = 0) -> str:
    """Return an instruction as TASM; branches within `size` instructions go to labels ``L<address>``.

    Parameters
    ----------
    i : Instruction
    config : Config
        The machine whose instruction it is.
    size : int
        Instructions of the program; 0 writes the addresses of branches as numbers.
    """
    uses, form = i.opcode.uses, i.opcode.form
    parts = []
    if form == "scalar":
        parts += [f"a{i.dst_reg}"] if "dst_reg" in uses else []
        parts += [f"a{i.a_reg}"] if "a_reg" in uses and (i.a_reg or "b" not in uses) else []
        parts += [f"#{i.b}"] if "b" in uses else []
        if "dst" in uses:
            parts.append(f"L{i.dst}" if i.dst < size else str(i.dst))
    elif form == "lda":
        parts += [f"a{i.dst_reg}", _memory("v", i.a, i.a_reg)]
    elif form in ("weights", "index", "sums"):
        parts.append(_memory("v", i.a, i.a_reg, i.a_stride if "a_stride" in uses else 1))
        parts += [_memory("v", i.b_address, i.b_reg, i.b_stride)] if "b" in uses else []
    elif i.op == "load":
        parts += [_memory("v", i.dst, i.dst_reg), _memory("x", i.b, i.b_reg)]
    elif i.op == "store":
        parts += [_memory("x", i.b, i.b_reg), _memory("v", i.a, i.a_reg)]
    else:
        stride = 1 if _gathers(i) else i.a_stride
        parts += [
            _memory("v", i.dst, i.dst_reg, i.dst_stride),
            _memory("s" if i.reads_sums else "v", i.a, i.a_reg, stride),
        ]
        op = i.opcode.op
        assert op is not None
        if i.constant:
            parts.append(_constant(i))
        elif op.reads_b or i.b or i.b_reg:
            parts.append(_memory("v", i.b_address, i.b_reg, i.b_stride))
    options = _options(i, config)
    return f"{i.op:8} {', '.join(parts)}" + (f", {options}" if options else "")


def _options(i: Instruction, config: Config) -> str:
    words = []
    if "count" in i.opcode.uses and i.count != 1:
        words.append(f"n={i.count}")
    if PRE[i.pre] in ("mxu", "mxu8") and not i.reads_sums:
        words.append("mxu" if PRE[i.pre] == "mxu" else config.packed_mode)
    elif PRE[i.pre] == "xlu":
        words.append(f"{XLU[i.xlu]}={i.k}" if i.xlu < 2 else XLU[i.xlu])
    if i.k and not (PRE[i.pre] == "xlu" and i.xlu < 2):
        words.append(f"k={i.k}")
    words += ["gather"] if _gathers(i) else []
    words += ["relu"] if i.relu else []
    words += ["acc"] if i.accumulate else []
    words += [f"reduce={REDUCE[i.reduce]}"] if i.reduce else []
    words += [f"levels={i.levels}"] if i.levels else []
    words += ["pack"] if i.pack else []
    words += [f"seg={config.lanes >> i.segment}"] if i.segment else []
    return " ".join(words)
