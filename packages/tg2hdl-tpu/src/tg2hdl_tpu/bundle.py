"""Bundles: a program with its machine, data and outputs, as text or binary; both are lossless."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir import InputError
from tg2hdl_ir.files import write_file
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.isa import INSTRUCTION_BITS

__all__ = ["SPACES", "Bundle", "Output", "Region"]

SPACES = ("vmem", "xmem")
_HEADER = "tg2hdl-tpu bundle 1"
_MAGIC = b"\x89TPU\r\n\x01"
_DIGITS = INSTRUCTION_BITS // 4


@dataclass(frozen=True, eq=False)
class Region:
    """Rows of a memory.

    Parameters
    ----------
    space : str
        ``vmem`` or ``xmem``.
    start : int
        First row.
    rows : ndarray of int32
        Contents, rows x lanes.
    """

    space: str
    start: int
    rows: NDArray[np.int32]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        return (self.space, self.start) == (other.space, other.start) and np.array_equal(
            self.rows, other.rows
        )


@dataclass(frozen=True)
class Output:
    """Rows to read after the run, under a name.

    Parameters
    ----------
    name : str
        An identifier.
    space : {"vmem", "xmem"}
        Scratchpad or external memory.
    start, count : int
        First row, and number of rows.
    """

    name: str
    space: str
    start: int
    count: int


@dataclass(frozen=True)
class Bundle:
    """A program and all it needs.

    Parameters
    ----------
    config : Config
        The machine.
    program : tuple of int
        Instruction words.
    data : tuple of Region
        Contents of the memories at the start; 0 elsewhere.
    outputs : tuple of Output
        Regions that are read at the end.

    Raises
    ------
    InputError
        For a program that is too long, and regions outside their memory.
    """

    config: Config
    program: tuple[int, ...] = ()
    data: tuple[Region, ...] = ()
    outputs: tuple[Output, ...] = field(default=())

    def __post_init__(self) -> None:
        if len(self.program) > self.config.imem_depth:
            raise InputError(
                f"{len(self.program)} instructions",
                where="bundle",
                hint=f"there is room for {self.config.imem_depth}",
            )
        if any(not 0 <= word < 1 << INSTRUCTION_BITS for word in self.program):
            raise InputError(
                f"an instruction word beyond {INSTRUCTION_BITS} bits",
                where="bundle",
                hint="give words that `encode` makes of instructions",
            )
        for region in self.data:
            if (
                region.rows.dtype != np.int32
                or region.rows.ndim != 2
                or region.rows.shape[1] != self.config.lanes
            ):
                raise InputError(
                    f"data of {region.rows.dtype} {region.rows.shape}",
                    where="bundle",
                    hint=f"use int32 rows of {self.config.lanes} lanes",
                )
            self._check(region.space, region.start, len(region.rows))
        names = [output.name for output in self.outputs]
        for output in self.outputs:
            self._check(output.space, output.start, output.count)
            if not output.name.isidentifier() or names.count(output.name) > 1:
                raise InputError(
                    f"an output is named {output.name!r}", where="bundle", hint="use different identifiers"
                )

    def _check(self, space: str, start: int, count: int) -> None:
        if space not in SPACES:
            raise InputError(f"no memory is named {space!r}", where="bundle", hint="use vmem or xmem")
        size = self.config.vmem_rows if space == "vmem" else self.config.xmem_rows
        if start < 0 or count < 1 or start + count > size:
            raise InputError(
                f"{count} rows from row {start} on of {space}", where="bundle", hint=f"it has {size}"
            )

    # Text

    def to_text(self) -> str:
        """Return the bundle as text."""
        lines = [_HEADER, f"config {self.config.to_json()}", f"program {len(self.program)}"]
        lines += [f"{word:0{_DIGITS}x}" for word in self.program]
        for region in self.data:
            lines.append(f"data {region.space} {region.start} {len(region.rows)}")
            lines += [" ".join(f"{word:x}" for word in row) for row in region.rows.view(np.uint32).tolist()]
        lines += [f"output {o.name} {o.space} {o.start} {o.count}" for o in self.outputs]
        return "\n".join([*lines, "end", ""])

    @classmethod
    def from_text(cls, text: str, *, name: str = "bundle") -> Bundle:
        """Read text.

        Parameters
        ----------
        text : str
            As `to_text` writes it.
        name : str
            Of the file, for errors.

        Raises
        ------
        InputError
            With the line of the fault.
        """
        return _TextReader(text, name).read()

    # Binary

    def to_bytes(self) -> bytes:
        """Return the bundle in binary, with a checksum."""
        config = self.config.to_json().encode()
        parts = [_MAGIC, struct.pack("<I", len(config)), config, struct.pack("<I", len(self.program))]
        parts += [word.to_bytes(INSTRUCTION_BITS // 8, "little") for word in self.program]
        parts.append(struct.pack("<I", len(self.data)))
        for region in self.data:
            parts.append(struct.pack("<BII", SPACES.index(region.space), region.start, len(region.rows)))
            parts.append(np.ascontiguousarray(region.rows, dtype="<i4").tobytes())
        parts.append(struct.pack("<I", len(self.outputs)))
        for output in self.outputs:
            label = output.name.encode()
            parts.append(struct.pack("<I", len(label)) + label)
            parts.append(struct.pack("<BII", SPACES.index(output.space), output.start, output.count))
        body = b"".join(parts)
        return body + struct.pack("<I", zlib.crc32(body))

    @classmethod
    def from_bytes(cls, raw: bytes, *, name: str = "bundle") -> Bundle:
        """Read binary.

        Parameters
        ----------
        raw : bytes
            As `to_bytes` writes it.
        name : str
            Of the file, for errors.

        Raises
        ------
        InputError
            With the byte where it is wrong.
        """
        return _BinaryReader(raw, name).read()

    def save(self, path: Path) -> None:
        """Write text, or binary for a name that ends in ``.tpu``."""
        write_file(path, self.to_bytes() if path.suffix == ".tpu" else self.to_text())

    @classmethod
    def load(cls, path: Path) -> Bundle:
        """Read either form."""
        raw = path.read_bytes()
        if raw.startswith(_MAGIC[:4]):
            return cls.from_bytes(raw, name=str(path))
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"neither text nor a binary bundle: {error}",
                where=str(path),
                hint="give a file that `tg2hdl tpu assemble` wrote",
            ) from None
        return cls.from_text(text, name=str(path))


def _located(make: Any, where: str) -> Any:
    """Give an error of the parts its place in the file."""
    try:
        return make()
    except InputError as error:
        raise InputError(error.message, where=where, notes=error.notes, hint=error.hint) from None


class _TextReader:
    def __init__(self, text: str, name: str) -> None:
        self.lines = text.splitlines()
        self.name = name
        self.at = 0

    def error(self, message: str, hint: str | None = None) -> InputError:
        return InputError(message, where=f"{self.name}:{max(self.at, 1)}", hint=hint)

    def next(self) -> list[str]:
        if self.at >= len(self.lines):
            self.at += 1
            raise self.error("the bundle ends too early", "the last line is `end`")
        self.at += 1
        return self.lines[self.at - 1].split(" ")

    def number(self, text: str, base: int, limit: int) -> int:
        # int() takes signs, blanks and underscores, which are not part of a bundle.
        digits = "0123456789abcdef"[:base]
        if not text or len(text) > 40 or any(c not in digits for c in text) or int(text, base) >= limit:
            raise self.error(f"{text[:40]!r} is not a number below {limit}")
        return int(text, base)

    def words(self, found: list[str], form: str) -> list[str]:
        if len(found) != len(form.split()):
            raise self.error(f"{' '.join(found)[:60]!r} is not `{form}`")
        return found[1:]

    def read(self) -> Bundle:
        if " ".join(self.next()) != _HEADER:
            raise self.error("this is not a bundle of version 1", f"the first line is `{_HEADER}`")
        kind, _, text = " ".join(self.next()).partition(" ")
        if kind != "config":
            raise self.error("the second line is not `config`")
        config: Config = _located(lambda: Config.from_json(text), f"{self.name}:2")
        found = self.next()
        if found[0] != "program":
            raise self.error("the third line is not `program`")
        (count,) = self.words(found, "program COUNT")
        program = []
        for _ in range(self.number(count, 10, config.imem_depth + 1)):
            program.append(
                self.number(self.words(["", *self.next()], "line WORD")[0], 16, 1 << INSTRUCTION_BITS)
            )
        data: list[Region] = []
        outputs: list[Output] = []
        while True:
            found = self.next()
            if found == ["end"]:
                break
            if found[0] == "data":
                data.append(self.region(self.words(found, "data MEMORY START COUNT"), config))
            elif found[0] == "output":
                name, space, start, count = self.words(found, "output NAME MEMORY START COUNT")
                outputs.append(
                    Output(name, space, self.number(start, 10, 1 << 24), self.number(count, 10, 1 << 24))
                )
            else:
                raise self.error(f"{found[0][:40]!r} is not a part of a bundle", "use data, output or end")
            place = f"{self.name}:{self.at}"
            _located(lambda: Bundle(config, (), tuple(data[-1:]), tuple(outputs)), place)
        if any(line.strip() for line in self.lines[self.at :]):
            raise self.error("text after `end`")
        return Bundle(config, tuple(program), tuple(data), tuple(outputs))

    def region(self, found: list[str], config: Config) -> Region:
        space, start, count = found[0], self.number(found[1], 10, 1 << 24), self.number(found[2], 10, 1 << 24)
        if count > len(self.lines) - self.at:
            raise self.error(f"{count} rows, but {len(self.lines) - self.at} lines are left")
        rows = np.zeros((count, config.lanes), dtype=np.uint32)
        for n in range(count):
            words = self.next()
            if len(words) != config.lanes:
                raise self.error(f"{len(words)} words in a row of {config.lanes} lanes")
            rows[n] = [self.number(word, 16, 1 << 32) for word in words]
        return Region(space, start, rows.view(np.int32))


class _BinaryReader:
    def __init__(self, raw: bytes, name: str) -> None:
        self.raw = raw
        self.name = name
        self.at = 0

    def error(self, message: str) -> InputError:
        return InputError(message, where=f"{self.name}, byte {self.at}")

    def take(self, count: int) -> bytes:
        if count > len(self.raw) - 4 - self.at:
            raise self.error(f"{count} bytes are missing")
        self.at += count
        return self.raw[self.at - count : self.at]

    def number(self) -> int:
        return int(struct.unpack("<I", self.take(4))[0])

    def place(self) -> tuple[str, int, int]:
        space, start, count = struct.unpack("<BII", self.take(9))
        if space >= len(SPACES):
            raise self.error(f"no memory has the number {space}")
        return SPACES[space], start, count

    def read(self) -> Bundle:
        if len(self.raw) < len(_MAGIC) + 4 or self.raw[: len(_MAGIC)] != _MAGIC:
            raise self.error("this is not a binary bundle of version 1")
        if struct.unpack("<I", self.raw[-4:])[0] != zlib.crc32(self.raw[:-4]):
            raise self.error("the checksum is wrong: the file is damaged or cut short")
        self.at = len(_MAGIC)
        text = self.take(self.number())
        place = f"{self.name}, byte {self.at}"
        config: Config = _located(lambda: Config.from_json(text.decode("utf-8", "replace")), place)
        program = tuple(
            int.from_bytes(self.take(INSTRUCTION_BITS // 8), "little")
            for _ in self.counted(INSTRUCTION_BITS // 8)
        )
        data = []
        for _ in self.counted(9):
            space, start, count = self.place()
            raw = self.take(4 * config.lanes * count)
            data.append(
                Region(space, start, np.frombuffer(raw, "<i4").reshape(count, config.lanes).astype(np.int32))
            )
        outputs = []
        for _ in self.counted(13):
            label = self.take(self.number()).decode("utf-8", "replace")
            outputs.append(Output(label, *self.place()))
        if self.at != len(self.raw) - 4:
            raise self.error("more bytes than the bundle has")
        place = f"{self.name}, byte {self.at}"
        bundle: Bundle = _located(lambda: Bundle(config, program, tuple(data), tuple(outputs)), place)
        return bundle

    def counted(self, size: int) -> Iterable[int]:
        count = self.number()
        if count * size > len(self.raw) - self.at:
            raise self.error(f"{count} entries are more than the file holds")
        return range(count)
