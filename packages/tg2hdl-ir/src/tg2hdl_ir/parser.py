"""Parser of the printed form of kernels and programs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError, UnsupportedError
from tg2hdl_ir.nodes import (
    BufferMeta,
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
)
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR

__all__ = ["parse_kernel", "parse_program"]

_NAME = r'(?P<name>"(?:[^"\\]|\\.)*"|[\w.\-]+)'
_V = r"[^\s,\[\]]+"
_KERNEL = re.compile(rf"kernel {_NAME}\Z")
_PROGRAM = re.compile(rf"program {_NAME}\Z")
_BUFFER = re.compile(rf"b(?P<idx>\d+)(?: {_NAME})?: (?P<dtype>\w+)\[(?P<depth>\d+)\](?P<out> output)?\Z")
_REGISTER = re.compile(r"r(?P<idx>\d+): (?P<dtype>\w+)(?:\[(?P<size>\d+)\])?\Z")
_VARIABLE = re.compile(r"\$(?P<name>[^\s:]+): (?P<dtype>\w+) (?P<low>-?\d+)\.\.(?P<high>-?\d+)\Z")
_MEMORY = re.compile(rf"m(?P<idx>\d+) {_NAME}: (?P<dtype>\w+)\[(?P<shape>[\d,]*)\] (?P<role>\w+)\Z")
_CALL = re.compile(r"call (?P<kernel>\d+)\((?P<args>[m\d, ]*)\)(?P<values>(?: \$[^\s=]+=-?\d+)*)\Z")
_RETURN = re.compile(r"return (?P<args>[m\d, ]*)\Z")
_RANGE = re.compile(rf"RANGE i(?P<axis>\d+)(?::(?P<dtype>\w+))? < (?P<bound>{_V}) (?P<type>\w+)\Z")
_END = re.compile(r"END i(?P<axis>\d+)\Z")
_LOAD = re.compile(
    rf"%(?P<id>\d+) = LOAD (?P<dtype>\w+) b(?P<buf>\d+)\[(?P<addr>{_V})\]"
    rf"(?: if (?P<gate>{_V}))?(?: else (?P<alt>{_V}))?(?: forwarded (?P<forwarded>\d+))?\Z"
)
_GET = re.compile(rf"%(?P<id>\d+) = GET (?P<dtype>\w+) r(?P<reg>\d+)(?:\[(?P<index>{_V})\])?\Z")
_OP = re.compile(rf"%(?P<id>\d+) = (?P<op>[\w.]+) (?P<dtype>\w+)(?P<srcs> {_V}(?:, {_V})*)?\Z")
_STORE = re.compile(
    rf"STORE (?P<dtype>\w+) b(?P<buf>\d+)\[(?P<addr>{_V})\] = (?P<value>{_V})(?: if (?P<gate>{_V}))?\Z"
)
_SET = re.compile(rf"SET r(?P<reg>\d+)(?:\[(?P<index>{_V})\])? = (?P<value>{_V})(?: if (?P<gate>{_V}))?\Z")


def parse_kernel(text: str) -> KernelIR:
    """Read the output of `format_kernel`.

    Raises
    ------
    InputError
        On a line that does not fit; it names the line.
    """
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    return _Parser(lines).kernel()


def parse_program(text: str, data: Mapping[str, npt.NDArray[Any]] | None = None) -> ProgramIR:
    """Read the output of `format_program`.

    Parameters
    ----------
    text : str
        Programs and their kernels, as printed.
    data : mapping of str to ndarray, optional
        Initial contents by buffer name: the text has none.

    Raises
    ------
    InputError
        On a line that does not fit; it names the line.
    """
    blocks: list[list[tuple[int, str]]] = []
    for n, line in enumerate(text.splitlines(), 1):
        if line.startswith(("program ", "kernel ")) or (line.strip() and not blocks):
            blocks.append([])
        if line.strip():
            blocks[-1].append((n, line))
    if not blocks:
        raise InputError("there is no program in an empty text", hint="give text that format_program printed")
    kernels = [_Parser(block).kernel() for block in blocks[1:]]
    return _program(blocks[0], kernels, data or {})


def _program(
    lines: list[tuple[int, str]], kernels: list[KernelIR], data: Mapping[str, npt.NDArray[Any]]
) -> ProgramIR:
    buffers: list[ProgramBuffer] = []
    variables: list[IRVariable] = []
    calls: list[KernelCall] = []
    outputs: tuple[int, ...] = ()
    number, line = lines[0]
    name = _need(_PROGRAM.match(line.strip()), number, line, "'program <name>'")["name"]
    for number, line in lines[1:]:
        text = line.strip()
        if m := _MEMORY.match(text):
            label = _unquote(m["name"])
            shape = tuple(int(s) for s in m["shape"].split(",") if s)
            dtype = _dtype(m["dtype"], number)
            buffers.append(ProgramBuffer(label, dtype, shape, m["role"], data.get(label)))
        elif m := _VARIABLE.match(text):
            variables.append(_variable(m, number))
        elif (m := _CALL.match(text)) and int(m["kernel"]) < len(kernels):
            calls.append(KernelCall(kernels[int(m["kernel"])], _numbers(m["args"]), _values(m["values"])))
        elif m := _RETURN.match(text):
            outputs = _numbers(m["args"])
        else:
            _need(None, number, line, "a buffer, variable, call of a printed kernel, or return")
    return ProgramIR(_unquote(name), tuple(buffers), tuple(calls), outputs, tuple(variables))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part.strip().removeprefix("m")) for part in text.split(",") if part.strip())


def _values(text: str) -> tuple[tuple[str, int], ...]:
    pairs = (part.removeprefix("$").split("=") for part in text.split())
    return tuple((name, int(value)) for name, value in pairs)


def _need(match: re.Match[str] | None, number: int, line: str, expected: str) -> re.Match[str]:
    if match is None:
        raise InputError(f"cannot read {line.strip()!r}, expected {expected}", where=f"line {number}")
    return match


def _unquote(name: str) -> str:
    return str(json.loads(name)) if name.startswith('"') else name


def _dtype(name: str, number: int) -> DType:
    try:
        return DType.from_name(name)
    except UnsupportedError as error:
        raise InputError(error.message, where=f"line {number}", hint=error.hint) from error


def _variable(m: re.Match[str], number: int) -> IRVariable:
    return IRVariable(m["name"], int(m["low"]), int(m["high"]), _dtype(m["dtype"], number))


class _Parser:
    def __init__(self, lines: list[tuple[int, str]]) -> None:
        self.lines = lines
        self.at = 0
        self.values: dict[str, IRValue] = {}
        self.line = 0

    def kernel(self) -> KernelIR:
        number, line = self.lines[0] if self.lines else (0, "")
        name = _unquote(_need(_KERNEL.match(line.strip()), number, line, "'kernel <name>'")["name"])
        buffers: list[BufferMeta] = []
        registers: list[RegisterMeta] = []
        variables: list[IRVariable] = []
        self.at = 1
        while self.at < len(self.lines):
            number, line = self.lines[self.at]
            text = line.strip()
            if m := _BUFFER.match(text):
                label = _unquote(m["name"]) if m["name"] else ""
                dtype = _dtype(m["dtype"], number)
                buffers.append(BufferMeta(int(m["idx"]), int(m["depth"]), dtype, bool(m["out"]), label))
            elif m := _REGISTER.match(text):
                registers.append(RegisterMeta(int(m["idx"]), _dtype(m["dtype"], number), int(m["size"] or 1)))
            elif m := _VARIABLE.match(text):
                variables.append(_variable(m, number))
                self.values[f"${m['name']}"] = variables[-1]
            else:
                break
            self.at += 1
        root = LoopIR.from_items(tuple(self.items(0, None)))
        return KernelIR(tuple(buffers), root, tuple(registers), tuple(variables), name)

    def items(self, depth: int, axis: int | None) -> list[IRItem]:
        items: list[IRItem] = []
        while self.at < len(self.lines):
            self.line, line = self.lines[self.at]
            self.at += 1
            text = re.sub(r"^\s*\d+\s+", "", line).strip()
            if m := _END.match(text):
                if int(m["axis"]) != axis:
                    _need(None, self.line, line, "the end of the innermost open RANGE")
                return items
            if m := _RANGE.match(text):
                items.append(self.loop(m, depth))
            elif item := self.statement(text, line):
                items.append(item)
        if axis is not None:
            raise InputError(f"RANGE i{axis} has no END", where=f"line {self.line}")
        return items

    def loop(self, m: re.Match[str], depth: int) -> LoopIR:
        bound: int | IRValue = int(m["bound"]) if m["bound"].isdigit() else self.value(m["bound"])
        dtype = _dtype(m["dtype"], self.line) if m["dtype"] else DType.INT32
        counter = IRCounter(bound, depth, int(m["axis"]), dtype)
        self.values[f"i{m['axis']}"] = counter
        items = self.items(depth + 1, counter.axis)
        return LoopIR.from_items(tuple(items), counter=counter, axis_type=m["type"])

    def statement(self, text: str, line: str) -> IRItem | None:
        """Statement of a line; None for an op, which is only remembered."""
        if m := _LOAD.match(text):
            load = IRBufLoad(
                int(m["buf"]),
                self.value(m["addr"]),
                _dtype(m["dtype"], self.line),
                self.optional(m["gate"]),
                self.optional(m["alt"]),
                int(m["forwarded"] or 0),
            )
            self.values[f"%{m['id']}"] = load
            return load
        if m := _GET.match(text):
            get = IRRegLoad(_dtype(m["dtype"], self.line), int(m["reg"]), self.optional(m["index"]))
            self.values[f"%{m['id']}"] = get
            return get
        if m := _STORE.match(text):
            return IRBufStore(
                int(m["buf"]),
                self.value(m["addr"]),
                self.value(m["value"]),
                _dtype(m["dtype"], self.line),
                self.optional(m["gate"]),
            )
        if m := _SET.match(text):
            return IRRegStore(
                self.value(m["value"]), int(m["reg"]), self.optional(m["index"]), self.optional(m["gate"])
            )
        m = _need(_OP.match(text), self.line, line, "a statement, an op, RANGE or END")
        srcs = tuple(self.value(s.strip()) for s in (m["srcs"] or "").split(",") if s.strip())
        self.values[f"%{m['id']}"] = IROp(m["op"], _dtype(m["dtype"], self.line), srcs)
        return None

    def optional(self, text: str | None) -> IRValue | None:
        return None if text is None else self.value(text)

    def value(self, text: str) -> IRValue:
        if text in self.values:
            return self.values[text]
        literal, _, name = text.rpartition(":")
        if not literal:
            raise InputError(f"{text} is not defined before its use", where=f"line {self.line}")
        dtype = _dtype(name, self.line)
        try:
            if dtype.is_bool:
                return IRConst({"true": True, "false": False}[literal], dtype)
            return IRConst(int(literal) if re.fullmatch(r"-?\d+", literal) else float(literal), dtype)
        except (KeyError, ValueError) as error:
            raise InputError(f"{literal!r} is not a {dtype} literal", where=f"line {self.line}") from error
