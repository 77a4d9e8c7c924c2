"""TASM: the assembler.

A line is ``[label:] [instruction | directive] [# comment]``.  Operands have the order destination, a, b:
``v[10]``, ``v[10+a1]``, ``v[10+a1:2]`` (address, address register, stride; the stride is 1 if left out),
``x[0]`` in external memory, ``s[0]`` for a row of the sums of the matrix unit (operand a), ``#5`` and ``#1.5`` for
constants.  Options follow:
``n=16 relu reduce=add levels=15 pack seg=4 acc``, ``mxu``, ``mxu8`` (``mxu16``), ``gather``,
``rotate=1``, ``broadcast=0``, ``transpose``, ``permute``, ``k=7``.

Directives: ``.vmem ROW = numbers``, ``.xmem ROW = numbers`` (they continue in the next rows),
``.out NAME vmem ROW COUNT``.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

import numpy as np

from tg2hdl_ir import InputError
from tg2hdl_tpu.bundle import SPACES, Bundle, Output, Region
from tg2hdl_tpu.config import ADDRESS_REGISTERS, Config
from tg2hdl_tpu.instruction_checks import problem
from tg2hdl_tpu.isa import GATHER, OPCODES, PRE, REDUCE, SUMS, XLU, Instruction, Opcode, encode

__all__ = ["assemble", "assemble_lines"]

_TOKEN = re.compile(
    r"(?P<space>[ \t,]+)|(?P<label>[A-Za-z_]\w*):(?=\s|$)|(?P<directive>\.[a-z]+)"
    r"|(?P<memory>[vxs]\[[^\]\s]*\])|(?P<constant>\#[^\s,]+)|(?P<comment>\#(?=\s|$).*)"
    r"|(?P<option>[a-z]\w*=[^\s,]+)|(?P<word>[A-Za-z_]\w*)|(?P<number>[-+]?[\w.][\w.+-]*)|(?P<equals>=)|(?P<bad>.)"
)
_MEMORY = re.compile(r"([vxs])\[(?:(\d+)(?:\+a(\d))?|a(\d)(?:\+(\d+))?)(?::([-+]?\d+))?\]")
_REGISTER = re.compile(r"a(\d)")
_FLOAT = re.compile(r"[-+]?(\d+\.\d*(e[-+]?\d+)?|\d+e[-+]?\d+|inf|nan)")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int


@dataclass
class _SourceLine:
    name: str
    number: int
    tokens: list[_Token]
    end: int

    def error(self, message: str, token: _Token | None = None, hint: str | None = None) -> InputError:
        column = token.column if token else self.end
        return InputError(message, where=f"{self.name}:{self.number}:{column}", hint=hint)

    def take(self, *kinds: str, what: str) -> _Token:
        if not self.tokens:
            raise self.error(f"{what} is missing")
        token = self.tokens.pop(0)
        if token.kind not in kinds:
            raise self.error(f"{token.text!r} where {what} should be", token)
        return token

    def peek(self, *kinds: str) -> bool:
        return bool(self.tokens) and self.tokens[0].kind in kinds


@dataclass
class _Program:
    config: Config
    name: str
    instructions: list[tuple[Instruction, _SourceLine, _Token, _Token | None]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    data: list[Region] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)


def assemble(text: str, config: Config | None = None, *, name: str = "program") -> Bundle:
    """Assemble a program.

    Parameters
    ----------
    text : str
        TASM.
    config : Config, optional
        The machine.
    name : str
        Of the file, for messages.

    Raises
    ------
    InputError
        With file, line and column: for invalid TASM, and for instructions that the machine cannot execute.
    """
    return assemble_lines(text, config, name=name)[0]


def assemble_lines(
    text: str, config: Config | None = None, *, name: str = "program"
) -> tuple[Bundle, tuple[int, ...]]:
    """Assemble a program, as `assemble` does, and return the line of each instruction too.

    Parameters
    ----------
    text : str
        TASM.
    config : Config or None
        The machine, where the text does not say; the default one without.
    name : str
        Of the program, for errors.

    Raises
    ------
    InputError
        With file, line and column: for invalid TASM, and for instructions that the machine cannot execute.
    """
    program = _Program(config or Config(), name)
    for number, line in enumerate(text.splitlines(), 1):
        _line(program, _SourceLine(name, number, _tokens(name, number, line), len(line.rstrip()) + 1))
    words = []
    for instruction, place, token, target in program.instructions:
        if target is not None:
            if target.text not in program.labels:
                raise place.error(f"no label is named {target.text!r}", target)
            instruction = Instruction(**{**vars(instruction), "dst": program.labels[target.text]})
        reason = problem(instruction, program.config)
        if reason:
            raise place.error(f"{instruction.op}: {reason}", token)
        words.append(encode(instruction))
    lines = tuple(place.number for _, place, _, _ in program.instructions)
    return Bundle(program.config, tuple(words), tuple(program.data), tuple(program.outputs)), lines


def _tokens(name: str, number: int, line: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(line):
        kind = match.lastgroup or "bad"
        if kind == "comment":
            break
        if kind == "bad":
            raise InputError(
                f"{match.group()!r} is not a part of TASM", where=f"{name}:{number}:{match.start() + 1}"
            )
        if kind != "space":
            found.append(
                _Token(
                    kind, match.group().rstrip(":") if kind == "label" else match.group(), match.start() + 1
                )
            )
    return found


def _line(program: _Program, line: _SourceLine) -> None:
    if line.peek("label"):
        label = line.take("label", what="a label")
        if label.text in program.labels:
            raise line.error(f"the label {label.text!r} is used twice", label)
        program.labels[label.text] = len(program.instructions)
    if line.peek("directive"):
        _directive(program, line)
    elif line.tokens:
        if len(program.instructions) == program.config.imem_depth:
            raise line.error(f"more than {program.config.imem_depth} instructions", line.tokens[0])
        program.instructions.append(_instruction(program, line))
    if line.tokens:
        raise line.error(f"{line.tokens[0].text!r} after the end of the statement", line.tokens[0])


def _integer(line: _SourceLine, token: _Token, text: str, low: int, high: int) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise line.error(f"{text[:40]!r} is not an integer", token) from None
    if not low <= value <= high:
        raise line.error(f"{text[:40]} is not between {low} and {high}", token)
    return value


def _number(line: _SourceLine, token: _Token, text: str) -> int:
    """An int32, or the bits of a float."""
    if _FLOAT.fullmatch(text):
        try:
            return int(struct.unpack("<i", struct.pack("<f", float(text)))[0])
        except OverflowError:
            raise line.error(f"{text[:40]} is beyond FP32", token) from None
    value = _integer(line, token, text, -(1 << 31), (1 << 32) - 1)
    return value - (1 << 32) if value >> 31 == 1 else value


def _directive(program: _Program, line: _SourceLine) -> None:
    token = line.take("directive", what="a directive")
    config = program.config
    space = token.text[1:]
    if space in SPACES:
        size = config.vmem_rows if space == "vmem" else config.xmem_rows
        row = line.take("number", what="a row")
        start = _integer(line, row, row.text, 0, size - 1)
        line.take("equals", what="`=`")
        values = []
        while line.tokens:
            item = line.take("number", "word", what="a number")
            values.append(_number(line, item, item.text))
        if not values:
            raise line.error("numbers are missing")
        count = -(-len(values) // config.lanes)
        if start + count > size:
            raise line.error(f"row {start + count - 1} of {size}", row)
        rows = np.zeros((count, config.lanes), dtype=np.int32)
        rows.reshape(-1)[: len(values)] = values
        program.data.append(Region(space, start, rows))
    elif space == "out":
        label = line.take("word", what="a name")
        memory = line.take("word", what="vmem or xmem")
        if memory.text not in SPACES:
            raise line.error(f"no memory is named {memory.text!r}", memory, "use vmem or xmem")
        if any(o.name == label.text for o in program.outputs):
            raise line.error(f"two outputs are named {label.text!r}", label)
        size = config.vmem_rows if memory.text == "vmem" else config.xmem_rows
        first = line.take("number", what="a row")
        start = _integer(line, first, first.text, 0, size - 1)
        last = line.take("number", what="a count")
        count = _integer(line, last, last.text, 1, size - start)
        program.outputs.append(Output(label.text, memory.text, start, count))
    else:
        raise line.error(f"no directive is named {token.text!r}", token, "use .vmem, .xmem or .out")


def _instruction(
    program: _Program, line: _SourceLine
) -> tuple[Instruction, _SourceLine, _Token, _Token | None]:
    name = line.take("word", what="an instruction")
    opcode = OPCODES.get(name.text)
    if opcode is None:
        raise line.error(f"no instruction is named {name.text!r}", name, "`tg2hdl tpu isa` lists them")
    values: dict[str, int] = {}
    target = None
    _needs(program.config, line, name, opcode.part)
    if opcode.form == "scalar":
        target = _scalar(line, opcode, values)
    elif opcode.form == "lda":
        values["dst_reg"] = _register(line)
        _memory(line, opcode, "a", values)
    elif opcode.form in ("weights", "index"):
        _memory(line, opcode, "a", values)
    elif opcode.name == "load":
        _memory(line, opcode, "dst", values)
        _memory(line, opcode, "b", values)
    elif opcode.name == "store":
        _memory(line, opcode, "b", values)
        _memory(line, opcode, "a", values)
    elif opcode.form == "sums":
        _memory(line, opcode, "a", values)
        if "b" in opcode.uses:
            _memory(line, opcode, "b", values)
    else:
        _memory(line, opcode, "dst", values)
        if line.peek("memory") and line.tokens[0].text.startswith("s"):
            _needs(program.config, line, line.tokens[0], "output_stationary")
            values |= {"pre": PRE.index("mxu"), "xlu": SUMS}
        _memory(line, opcode, "a", values)
        assert opcode.op is not None
        if opcode.op.reads_b or line.peek("memory", "constant"):
            _memory(line, opcode, "b", values)
    if "count" in opcode.uses:
        values["count"] = 1
    _options(program.config, line, opcode, values)
    return Instruction(opcode.name, **values), line, name, target


def _needs(config: Config, line: _SourceLine, token: _Token, part: str) -> None:
    if part and not getattr(config, part):
        hint = f"assemble for a machine whose configuration has {part}"
        raise line.error(f"{token.text}: this machine has no {part}", token, hint)


def _register(line: _SourceLine) -> int:
    token = line.take("word", what="an address register")
    match = _REGISTER.fullmatch(token.text)
    if not match or int(match[1]) >= ADDRESS_REGISTERS:
        raise line.error(f"{token.text!r} is not an address register", token, "use a0 to a7")
    return int(match[1])


def _scalar(line: _SourceLine, opcode: Opcode, values: dict[str, int]) -> _Token | None:
    if "dst_reg" in opcode.uses:
        values["dst_reg"] = _register(line)
    if "a_reg" in opcode.uses and (line.peek("word") or "b" not in opcode.uses):
        values["a_reg"] = _register(line)
    if "b" in opcode.uses and (line.peek("constant") or "a_reg" not in values):
        token = line.take("constant", what="a constant")
        values["b"] = _integer(line, token, token.text[1:], -(1 << 31), (1 << 31) - 1)
    if "dst" not in opcode.uses:
        return None
    token = line.take("word", "number", what="a label")
    if token.kind == "word":
        return token
    values["dst"] = _integer(line, token, token.text, 0, (1 << 15) - 1)
    return None


def _memory(line: _SourceLine, opcode: Opcode, operand: str, values: dict[str, int]) -> None:
    constant = operand == "b" and opcode.form == "vector"
    token = line.take("memory", *(["constant"] if constant else []), what=f"operand {operand}")
    if token.kind == "constant":
        values["constant"] = 1
        values["b"] = _number(line, token, token.text[1:])
        return
    match = _MEMORY.fullmatch(token.text)
    space = "x" if opcode.form == "dma" and operand == "b" else "v"
    space = "s" if operand == "a" and values.get("xlu") == SUMS else space
    if not match or match[1] != space:
        raise line.error(
            f"{token.text!r} where {space}[ROW] should be", token, "as in v[10], v[10+a1], v[a1], v[10+a1:2]"
        )
    address = int(match[2] or match[5] or 0)
    register = int(match[3] or match[4] or 0)
    if register >= ADDRESS_REGISTERS:
        raise line.error(f"a{register} is not an address register", token, "use a0 to a7")
    row = operand == "b" and opcode.form in ("vector", "sums")
    limit = (1 << 16 if row else 1 << 31 if operand == "b" else 1 << 15) - 1
    if address > limit:
        raise line.error(f"address {address} is beyond {limit}", token)
    strided = row or f"{operand}_stride" in opcode.uses
    if match[6] and not strided:
        raise line.error(f"{opcode.name} has no stride here", token)
    stride = int(match[6]) if match[6] else 1
    bits = 16 if row else 8
    if not -(1 << bits >> 1) <= stride < 1 << bits >> 1:
        raise line.error(f"stride {stride} is beyond {bits} bits", token)
    values[f"{operand}_reg"] = register
    if row:
        values["b"] = address | stride << 16
    else:
        values[operand] = address
        if strided:
            values[f"{operand}_stride"] = stride


def _options(config: Config, line: _SourceLine, opcode: Opcode, values: dict[str, int]) -> None:
    seen = {"pre", "xlu"} if values.get("xlu") == SUMS else set()

    def put(token: _Token, **fields: int) -> None:
        for name, value in fields.items():
            if name not in opcode.uses:
                raise line.error(f"{opcode.name} has no option {token.text!r}", token)
            if name in seen:
                raise line.error(f"{token.text!r} sets {name} again", token)
            seen.add(name)
            values[name] = value

    while line.peek("word", "option"):
        token = line.take("word", "option", what="an option")
        name, _, text = token.text.partition("=")
        if token.kind == "word":
            flags: dict[str, dict[str, int]] = {
                "relu": {"relu": 1},
                "acc": {"accumulate": 1},
                "pack": {"pack": 1},
                "mxu": {"pre": PRE.index("mxu")},
                **({} if config.packed_mode == "mxu" else {config.packed_mode: {"pre": PRE.index("mxu8")}}),
                "gather": {"xlu": GATHER, "a_stride": 0},
                "transpose": {"pre": PRE.index("xlu"), "xlu": XLU.index("transpose")},
                "permute": {"pre": PRE.index("xlu"), "xlu": XLU.index("permute")},
            }
            if name not in flags and re.fullmatch(r"mxu\d+", name):
                reason = f"{name}: elements of the matrix unit are {config.matrix_format}"
                raise line.error(
                    reason, token, f"use {config.packed_mode}, or a machine of another matrix_format"
                )
            if name not in flags:
                raise line.error(f"no option is named {name!r}", token, "options: " + ", ".join(flags))
            if name == "gather" and values.get("a_stride", 1) not in (0, 1):
                raise line.error("gather has no stride", token)
            put(token, **flags[name])
        elif name == "n":
            put(token, count=_integer(line, token, text, 1, 1023))
        elif name == "levels":
            put(token, levels=_integer(line, token, text, 1, 31))
        elif name == "reduce" and text in REDUCE[1:]:
            put(token, reduce=REDUCE.index(text))
        elif name == "seg":
            width = _integer(line, token, text, 1, config.lanes)
            if width & (width - 1):
                raise line.error(f"a segment of {width} lanes is not a power of two", token)
            put(token, segment=(config.lanes // width).bit_length() - 1)
        elif name == "k":
            put(token, k=_integer(line, token, text, 0, 63))
        elif name in ("rotate", "broadcast"):
            put(
                token,
                pre=PRE.index("xlu"),
                xlu=XLU.index(name),
                k=_integer(line, token, text, 0, config.lanes - 1),
            )
        else:
            raise line.error(f"no option is written {token.text[:40]!r}", token)
