"""The register map of a design behind a bus or a link: one map for the hardware, the drivers and their documents."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from amaranth import Shape

from tg2hdl_ir import DType, InputError
from tg2hdl_lower import HostBuffer, HostShape, variables_signature

__all__ = [
    "BUS_REGISTERS",
    "MAGIC",
    "MAX_WORDS",
    "REGISTERS",
    "AccessCode",
    "AddressWindow",
    "Field",
    "Register",
    "RegisterMap",
    "element_bytes",
    "identifiers",
    "padded_bits",
]

MAGIC = 0x48324754
"""``TG2H`` in the first register."""
VERSION = 1
_VARIABLES = 0x40
_WORD = 4
MAX_WORDS = 255
"""Words of a packet."""


class AccessCode:
    """Codes that the hardware gives for an access."""

    OK, ADDRESS, ORDER, BUSY, EARLY, STALE, INCOMPLETE, RANGE = range(8)
    NAMES = ("OK", "ADDRESS", "ORDER", "BUSY", "EARLY", "STALE", "INCOMPLETE", "RANGE")
    MEANING = (
        "done",
        "no register or buffer can be accessed so at this address",
        "a buffer is accessed from its first word on, word by word",
        "the design runs",
        "there is no result: no run has ended since the power-on",
        "START was written with another number than RUNS",
        "an input is written in part",
        "a variable is written with a value out of its range, and keeps its value",
    )


@dataclass(frozen=True)
class Field:
    """Bits of a register, `low` the lowest one."""

    name: str
    low: int
    width: int = 1


@dataclass(frozen=True)
class Register:
    """A register of 32 bits; `access` is ``r``, ``w`` or ``rw``.  Without `fields` it is one value."""

    name: str
    address: int
    access: str
    description: str
    fields: tuple[Field, ...] = ()


REGISTERS = (
    Register("MAGIC", 0x00, "r", "0x48324754, the letters TG2H"),
    Register("VERSION", 0x04, "r", "version of this map: 1"),
    Register("ID_LOW", 0x08, "r", "low half of the identity of the design"),
    Register("ID_HIGH", 0x0C, "r", "high half of the identity of the design"),
    Register("DESCRIPTION", 0x10, "r", "address of the description, a JSON text"),
    Register("DESCRIPTION_BYTES", 0x14, "r", "bytes of the description"),
    Register(
        "START", 0x18, "w", "starts a run; the value must be that of RUNS, so that nothing starts twice"
    ),
    Register(
        "STATUS",
        0x1C,
        "r",
        "bit 0: runs; bit 1: has a result; bit 2: an input is written in part; bits 15:8: kernels that have ended "
        "in this run",
        (Field("busy", 0), Field("result", 1), Field("partial", 2), Field("kernels_ended", 8, 8)),
    ),
    Register("RUNS", 0x20, "r", "runs that were started since power-on"),
    Register("CYCLES", 0x24, "r", "clock cycles from start to done of the last run"),
    Register("ERROR", 0x28, "rw", "code of the first refused access; a write clears it"),
    Register("LINK_ERRORS", 0x2C, "r", "packets that were dropped: check, length, overflow"),
    Register("STALLS", 0x30, "r", "clock cycles in which an access waited for the end of a run"),
)

_EVENTS = (Field("done", 0), Field("error", 1))
BUS_REGISTERS = (
    Register(
        "GO", 0x34, "w", "a write of any value starts a run: START for a single master, which needs no RUNS"
    ),
    Register(
        "IRQ_ENABLE",
        0x38,
        "rw",
        "events that raise the interrupt; bit 0: a run ends; bit 1: ERROR is set",
        _EVENTS,
    ),
    Register(
        "IRQ_PENDING",
        0x3C,
        "rw",
        "events since they were cleared, of the same bits; a 1 written clears its bit",
        _EVENTS,
    ),
)
"""Registers that a map behind a bus has in addition."""

_LOOP_REGISTERS = (
    (
        "GENERATE",
        "w",
        "starts LIMIT runs, each on the result of the one before; the value must be that of RUNS",
    ),
    ("LIMIT", "rw", "most results of GENERATE"),
    (
        "STOPS",
        "rw",
        "1: the result all of whose elements equal STOP is the last one",
    ),
    ("STOP", "rw", "a value of the output in the model's type"),
    ("STOP_HIGH", "rw", "its upper half; only where it has 64 bits"),
    ("RESULTS", "r", "results since GENERATE"),
)
"""Registers of a loop, after all others."""


@dataclass(frozen=True)
class AddressWindow:
    """Addresses of a buffer: its elements in the order of the model, little-endian, padded to words of 32 bits."""

    buffer: HostBuffer
    address: int

    @property
    def element_bytes(self) -> int:
        """Bytes of an element: a power of two."""
        return element_bytes(self.buffer)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.buffer.layout.depth

    @property
    def words(self) -> int:
        """Words of 32 bits."""
        return -(-self.elements * self.element_bytes // _WORD)

    @property
    def last_word(self) -> int:
        """Address of the last word."""
        return self.address + _WORD * (self.words - 1)

    @property
    def span(self) -> int:
        """Bytes that are set apart: a power of two."""
        return _power(self.words * _WORD)


@dataclass(frozen=True)
class RegisterMap:
    """Registers, description and buffers of a design, all in one address space of bytes.

    Parameters
    ----------
    serves : HostShape
    has_bus : bool
        Whether it is behind a bus, with an interrupt, and not behind a link of packets.
    """

    serves: HostShape
    has_bus: bool = False

    @property
    def variables(self) -> tuple[Register, ...]:
        """A register for each run-time variable."""
        found = []
        members = variables_signature(self.serves.variables).members
        for n, variable in enumerate(self.serves.variables):
            if Shape.cast(members[variable.name].shape).width > 32:
                raise InputError(
                    f"run-time variable {variable.name!r} has more than 32 bits",
                    hint='use the port "native"',
                )
            name = _markdown(variable.name)
            text = f"run-time variable {name}, {variable.low} to {variable.high}"
            found.append(Register(f"VARIABLE_{variable.name}", _VARIABLES + _WORD * n, "rw", text))
        return tuple(found)

    @property
    def kernel_ends(self) -> tuple[Register, ...]:
        """A register for each kernel."""
        first = _VARIABLES + _WORD * len(self.serves.variables)
        return tuple(
            Register(
                f"KERNEL_{n}_END",
                first + _WORD * n,
                "r",
                f"clock cycles from start to the end of kernel {n} in the last run",
            )
            for n in range(len(self.serves.order))
        )

    @property
    def loop(self) -> tuple[Register, ...]:
        """Registers of the loop, where the design has one."""
        if self.serves.loop is None:
            return ()
        first = _VARIABLES + _WORD * (len(self.serves.variables) + len(self.serves.order))
        return tuple(
            Register(name, first + _WORD * n, access, text)
            for n, (name, access, text) in enumerate(_LOOP_REGISTERS)
        )

    @property
    def registers(self) -> tuple[Register, ...]:
        """All registers."""
        bus = BUS_REGISTERS if self.has_bus else ()
        return (*REGISTERS, *bus, *self.variables, *self.kernel_ends, *self.loop)

    @property
    def places(self) -> dict[str, int]:
        """Addresses of all registers by name."""
        return {register.name: register.address for register in self.registers}

    @property
    def constants(self) -> dict[str, int]:
        """Values of the registers that never change, by name."""
        identity = int(self.serves.identity or "0", 16)
        return {
            "MAGIC": MAGIC,
            "VERSION": VERSION,
            "ID_LOW": identity & 0xFFFFFFFF,
            "ID_HIGH": identity >> 32,
            "DESCRIPTION": self.description_address,
            "DESCRIPTION_BYTES": len(self.description()),
        }

    @property
    def windows(self) -> tuple[AddressWindow, ...]:
        """Buffers: inputs and weights in the order of the program, then the outputs in theirs."""
        order = {name: n for n, name in enumerate(self.serves.outputs)}
        written = [b for b in self.serves.buffers if b.name not in order]
        results = sorted((b for b in self.serves.buffers if b.name in order), key=lambda b: order[b.name])
        found, end = [], self._registers_end
        for buffer in (*written, *results):
            span = AddressWindow(buffer, 0).span
            address = -(-end // span) * span
            found.append(AddressWindow(buffer, address))
            end = address + span
        return tuple(found)

    @property
    def packet_run(self) -> tuple[AddressWindow, AddressWindow] | None:
        """The only input and the only output, where each fits into one packet: those of the operation RUN."""
        inputs = [w for w in self.windows if w.buffer.role == "input" and w.buffer.writes]
        outputs = [w for w in self.windows if w.buffer.name in self.serves.outputs and w.buffer.reads]
        pairs = [(a, b) for a in inputs for b in outputs if max(a.words, b.words) <= MAX_WORDS]
        return pairs[0] if len(inputs) == len(outputs) == len(pairs) == 1 and self.serves.control else None

    @property
    def description_address(self) -> int:
        """Where the description begins: after the buffers."""
        end = max((w.address + w.span for w in self.windows), default=self._registers_end)
        span = _power(len(self.description()))
        return -(-end // span) * span

    @property
    def address_bits(self) -> int:
        """Bits of an address."""
        return max(12, (self.description_address + _power(len(self.description())) - 1).bit_length())

    def description(self) -> bytes:
        """The description that the hardware holds: names, shapes, types and addresses, as JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":")).encode()

    def to_dict(self) -> dict[str, Any]:
        """The description as plain data."""
        shape = self.serves
        windows = []
        for window in self.windows:
            b = window.buffer
            access = "r" * b.reads + "w" * b.writes
            role = "state" if b.is_state and b.name not in shape.outputs else b.role
            windows.append([b.title, role, b.dtype.numpy().name, list(b.shape), window.address, access])
        return {
            "design": shape.program,
            "id": shape.identity,
            "kernels": len(shape.order),
            "cycles": shape.cycles,
            "buffers": windows,
            "outputs": [self._title(name) for name in shape.outputs],
            "state": shape.keeps_state,
            **self._states,
            **self._loop,
            "packet_run": self.packet_run is not None,
            "variables": [[v.name, v.low, v.high] for v in shape.variables],
        }

    @property
    def _states(self) -> dict[str, Any]:
        """State that the host reaches, with the least and the greatest integer that it can hold."""
        found: list[list[Any]] = []
        for b in self.serves.buffers:
            if b.is_state and b.writes:
                whole = b.dtype.is_int and b.dtype.bit_width < 8 * element_bytes(b)
                found.append([b.title, *((b.dtype.min_value, b.dtype.max_value) if whole else (None, None))])
        return {"states": found} if found else {}

    @property
    def _loop(self) -> dict[str, Any]:
        """Address of the loop's registers, its counter and its buffer of results."""
        loop = self.serves.loop
        if loop is None:
            return {}
        return {"loop": [self.loop[0].address, loop.counter, loop.results, loop.most, loop.gap]}

    def page(self) -> str:
        """The map as a page in Markdown."""
        shape = self.serves
        lines = [
            f"# Registers of {_markdown(shape.program)}",
            "",
            f"Identity `{shape.identity}`, {len(shape.order)} kernels, at most {shape.cycles:,} clock cycles. "
            "Addresses count bytes; every access is a word of 32 bits, little-endian.",
            "",
            "| address | name | access | meaning |",
            "|---|---|---|---|",
            *(
                f"| 0x{r.address:04x} | {_markdown(r.name)} | {r.access} | {r.description} |"
                for r in self.registers
            ),
            f"| 0x{self.description_address:04x} | | r | description: {len(self.description())} bytes of JSON |",
            "",
            "## Buffers",
            "",
            "Elements in the order of the model (C order), little-endian, padded to whole words. A buffer is accessed "
            "from its first word on, word by word; an access of its first word begins again."
            + (
                " Bytes of a word may be written one by one, and a word again, until the next word is accessed; the "
                "word that was read last may be read again."
                if self.has_bus
                else ""
            ),
            "",
            "| address | bytes | name | role | type | shape | access |",
            "|---|---|---|---|---|---|---|",
        ]
        for w in self.windows:
            b = w.buffer
            access, size = "r" * b.reads + "w" * b.writes, 4 * w.words
            form = "x".join(map(str, b.shape)) or "1"
            lines.append(
                f"| 0x{w.address:04x} | {size} | {_markdown(b.title)} | {b.role} | {b.dtype.numpy().name} | {form} "
                f"| {access} |"
            )
        lines += ["", "## Codes of refused accesses", "", "| code | meaning |", "|---|---|"]
        lines += [f"| {code} | {text} |" for code, text in enumerate(AccessCode.MEANING)]
        return "\n".join(lines) + "\n"

    def c_header(self) -> str:
        """The map as a C header."""
        guard = "TG2HDL_REGISTERS_H"
        lines = [
            f"/* Registers of {_plain(self.serves.program)}; see registers.md. */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            f"#define TG2HDL_ID 0x{self.serves.identity or '0'}ULL",
            f"#define TG2HDL_MAX_CYCLES {self.serves.cycles}u",
            "",
            *(
                f"#define TG2HDL_{name} 0x{r.address:04x}u"
                for name, r in zip(identifiers([r.name for r in self.registers]), self.registers, strict=True)
            ),
            "",
        ]
        for register, variable in zip(self.variables, self.serves.variables, strict=True):
            lines.append(f"/* {register.name}: {variable.low} to {variable.high}, by tg2hdl_set */")
        for name, w in zip(identifiers([w.buffer.name for w in self.windows]), self.windows, strict=True):
            lines += [
                f"/* {_plain(w.buffer.title)}: {w.buffer.role}, {w.buffer.dtype.numpy().name} {w.buffer.shape} */",
                f"#define TG2HDL_BUFFER_{name}_ADDRESS 0x{w.address:04x}u",
                f"#define TG2HDL_BUFFER_{name}_BYTES {4 * w.words}u",
                f"#define TG2HDL_BUFFER_{name}_ELEMENTS {w.elements}u",
            ]
        if self.packet_run is not None:
            given, found = self.packet_run
            lines += [
                "/* The buffers of tg2hdl_call. */",
                f"#define TG2HDL_CALL_INPUT_BYTES {given.elements * element_bytes(given.buffer)}u",
                f"#define TG2HDL_CALL_ADDRESS 0x{found.address:04x}u",
                f"#define TG2HDL_CALL_OUTPUT_BYTES {found.elements * element_bytes(found.buffer)}u",
            ]
        lines += ["", "enum tg2hdl_code {"]
        lines += [
            f"    TG2HDL_CODE_{n} = {code}, /* {AccessCode.MEANING[code]} */"
            for code, n in enumerate(AccessCode.NAMES)
        ]
        lines += ["};", "", f"#endif /* {guard} */", ""]
        return "\n".join(lines)

    @property
    def _registers_end(self) -> int:
        count = len(self.serves.variables) + len(self.serves.order) + len(self.loop)
        return _power(_VARIABLES + _WORD * count)

    def _title(self, name: str) -> str:
        return next(b.title for b in self.serves.buffers if b.name == name)


def element_bytes(buffer: HostBuffer) -> int:
    """Bytes of an element where a host sees it: a power of two."""
    return _power(-(-buffer.dtype.bit_width // 8))


def padded_bits(dtype: DType, size: int, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Bits of elements where a host sees them: integers with their sign, others padded with zeros.

    Parameters
    ----------
    dtype : DType
        Of the elements in the memory; narrower than `size` where a state is stored in fewer bits.
    size : int
        Bytes of an element, see `element_bytes`.
    array : ndarray
        In the numpy type of `dtype`.
    """
    if dtype.kind == "int":
        return array.astype(f"<i{size}").view(f"<u{size}")
    return dtype.array_to_bits(array).astype(f"<u{size}")


def identifiers(names: Sequence[str]) -> list[str]:
    """Parts of C identifiers in upper case; names that differ only in case or signs get a number."""
    found: list[str] = []
    for name in names:
        plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in name).upper()
        macro, number = plain, 1
        while macro in found:
            number += 1
            macro = f"{plain}_{number}"
        found.append(macro)
    return found


def _plain(text: str) -> str:
    """Text for a comment in C, which it neither ends nor begins."""
    return _line(text).replace("*/", "* /").replace("/*", "/ *")


def _markdown(text: str) -> str:
    """Text for a cell of a table in Markdown, where it is neither markup nor HTML."""
    if re.fullmatch(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", text, re.ASCII):
        return text
    escaped = re.sub(r"([\\`*_{}\[\]()#+!|~$@-])", r"\\\1", _line(text))
    return html.escape(escaped, quote=False)


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _power(value: int) -> int:
    return 1 << max(0, math.ceil(math.log2(max(1, value))))
