"""The one configuration of a machine: hardware, simulator, assembler and C header are made from it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from tg2hdl_ir import InputError

#: Bits of an element of the matrix unit, by its format.
MATRIX_FORMATS = {"int8": 8, "int16": 16, "bf16": 16, "fp32": 32}

__all__ = ["ADDRESS_BITS", "ADDRESS_REGISTERS", "DMA_FIFO", "LOOP_DEPTH", "MATRIX_FORMATS", "Config"]

ADDRESS_REGISTERS = 8
ADDRESS_BITS = 24
LOOP_DEPTH = 4
#: Rows between a DMA channel and the external memory.
DMA_FIFO = 8


@dataclass(frozen=True)
class Config:
    """Parameters of a machine.

    Parameters
    ----------
    lanes : int
        Words of 32 bits in a row: 4, 8, 16 or 32.
    rows, columns : int
        Size of the matrix unit: factors of a dot product, and dot products; powers of two, at most `lanes`.
    matrix_format : str
        Elements of the matrix unit: ``int8`` or ``int16``, whose products are added in int32, which wraps; ``bf16`` or
        ``fp32``, whose products are added in FP32.
    vmem_rows : int
        Rows of the scratchpad; a power of two.
    imem_depth : int
        Instructions.
    xmem_rows : int
        Rows of the external memory.
    issue_registers : int
        1 prepares rows ahead, and compares them before they are issued.
    read_registers, pre_registers, alu_registers, reduce_registers : int
        Pipeline registers after memory (0 or 1), in matrix unit and crossbar (0 to 5), vector unit (0 to 5), and
        reduction (0 to 1 + levels).
    float, functions, divide : bool
        Whether there are FP32 operations; FP32 division, root, exp2, log2 and sine; integer division.
    zero_points : bool
        Whether there is `requantz`: requantization with a zero point.
    output_stationary : bool
        Whether the matrix unit also keeps `rows` x `columns` sums of 32 bits: `outer` adds to all of them.
    float_stages, function_stages : int
        Pipeline registers of the first, and of each multiplier and adder of a matrix unit of floats; of the others.
    crossbar_lanes : int
        Words that the crossbar makes in a cycle, a power of two up to `lanes`; a permuted row takes `lanes` / words
        cycles.  0 is as many as lanes.
    reduce_layers : int
        Layers of adders for a reduction over lanes: 0 is one for each level, 1 is one that serves all levels, in
        turn; then the next row that is reduced is issued as many cycles later as there are levels.  1 needs all
        `reduce_registers`.
    float_lanes, function_lanes : int
        Units side by side, a power of two up to `lanes`; a row takes `lanes` / units cycles.  0 is as many as lanes.
    memory_latency, memory_interval : int
        Cycles of the external memory from a request to its row, and from one request to the next.
    refresh_period, refresh_cycles : int
        Every `refresh_period` cycles the external memory takes no request for `refresh_cycles`; 0 for none.

    Raises
    ------
    InputError
        For a value that no machine can have.
    """

    lanes: int = 16
    rows: int = 4
    columns: int = 4
    matrix_format: str = "int8"
    vmem_rows: int = 1024
    imem_depth: int = 512
    xmem_rows: int = 65536
    issue_registers: int = 0
    read_registers: int = 0
    pre_registers: int = 0
    alu_registers: int = 0
    reduce_registers: int = 0
    float: bool = False
    functions: bool = False
    divide: bool = False
    zero_points: bool = False
    output_stationary: bool = False
    crossbar_lanes: int = 0
    reduce_layers: int = 0
    float_stages: int = 5
    function_stages: int = 16
    float_lanes: int = 0
    function_lanes: int = 1
    memory_latency: int = 1
    memory_interval: int = 1
    refresh_period: int = 0
    refresh_cycles: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kind = type(field.default)
            if type(value) is not kind:
                raise InputError(f"{field.name} is {value!r}, not a {kind.__name__}", where="Config")
        self._one_of("lanes", (4, 8, 16, 32))
        self._one_of("rows", (2, 4, 8, 16, 32))
        self._one_of("columns", (1, 2, 4, 8, 16, 32))
        self._between("rows", 2, self.lanes)
        self._between("columns", 1, self.lanes)
        self._one_of("matrix_format", tuple(MATRIX_FORMATS))
        if self.output_stationary and self.matrix_is_float:
            raise InputError(
                f"output_stationary with matrix_format {self.matrix_format}",
                where="Config",
                hint="its sums are integers: use int8 or int16, or leave output_stationary out",
            )
        self._one_of("vmem_rows", tuple(1 << k for k in range(4, 16)))
        self._between("vmem_rows", 16, (1 << 15) // self.lanes)
        self._between("imem_depth", 4, 1 << 15)
        self._between("xmem_rows", 16, 1 << (ADDRESS_BITS - 1))
        self._between("issue_registers", 0, 1)
        self._between("read_registers", 0, 1)
        self._between("pre_registers", 0, 5)
        self._between("alu_registers", 0, 5)
        self._between("reduce_registers", 0, 1 + self.levels)
        self._between("reduce_layers", 0, 1)
        if self.reduce_layers and self.reduce_registers <= self.levels:
            raise InputError(
                f"reduce_layers is 1, and reduce_registers {self.reduce_registers}",
                where="Config",
                hint=f"one layer needs a register after each level: use reduce_registers={1 + self.levels}",
            )
        self._between("float_stages", 1, 12)
        self._between("function_stages", 1, 34)
        for name in ("crossbar_lanes", "float_lanes", "function_lanes"):
            self._one_of(name, tuple(n for n in (0, 1, 2, 4, 8, 16, 32) if n <= self.lanes))
        self._between("memory_latency", 1, 255)
        self._between("memory_interval", 1, 255)
        self._between("refresh_period", 0, 1 << 20)
        self._between("refresh_cycles", 0, max(self.refresh_period - 1, 0))

    def _one_of(self, name: str, allowed: tuple[Any, ...]) -> None:
        if getattr(self, name) not in allowed:
            raise InputError(
                f"{name} is {getattr(self, name)}",
                where="Config",
                hint=f"use one of {', '.join(map(str, allowed))}",
            )

    def _between(self, name: str, low: int, high: int) -> None:
        if not low <= getattr(self, name) <= high:
            raise InputError(f"{name} is {getattr(self, name)}", where="Config", hint=f"use {low} to {high}")

    @property
    def latency(self) -> int:
        """Cycles from the issue of a row to its write, of integers."""
        return 2 + self.read_registers + self.pre_registers + self.alu_registers + self.reduce_registers

    @property
    def check(self) -> int:
        """Cycles from the issue of a row to the check of its operands."""
        return 1 + self.read_registers + min(max(0, self.pre_registers - 2), 2)

    def interval(self, kind: int) -> int:
        """Cycles from one row to the next: of integers (0), floats (1), functions and division (2), products (3)."""
        units = (0, self.float_lanes, self.function_lanes, 0)[kind]
        return self.lanes // (units or self.lanes)

    @property
    def crossings(self) -> int:
        """Cycles that a permuted row takes."""
        return self.lanes // (self.crossbar_lanes or self.lanes)

    @property
    def reductions(self) -> int:
        """Cycles from a row that is combined over lanes to the next one."""
        return self.levels if self.reduce_layers else 1

    @property
    def latencies(self) -> tuple[int, ...]:
        """Cycles from issue to write by kind, each longer than those of the kinds before that the machine has.

        The last, products of a matrix unit of floats, is only there with one.
        """
        found = [self.latency]
        for kind, stages in ((1, self.float_stages), (2, self.function_stages)):
            least = 1 + self.read_registers + self.pre_registers + stages + self.interval(kind)
            found.append(max(least, found[-1] + 1))
        if self.matrix_is_float:
            there = (True, self.float, self.functions or self.divide)
            slowest = max(cycles for cycles, has in zip(found, there, strict=True) if has)
            found.append(max(self.sums_age + self.float_stages + 1, slowest + 1))
        return tuple(found)

    @property
    def sums_age(self) -> int:
        """Cycles from the issue of a row to its sums of products of floats, to which `b` is then added."""
        levels = self.rows.bit_length() - 1
        sums = self.check + self.float_stages * (1 + levels)
        return max(sums, 1 + self.read_registers + self.pre_registers)

    @property
    def levels(self) -> int:
        """Levels of a reduction over all lanes."""
        return self.lanes.bit_length() - 1

    @property
    def matrix_bits(self) -> int:
        """Bits of an element of the matrix unit."""
        return MATRIX_FORMATS[self.matrix_format]

    @property
    def matrix_is_float(self) -> bool:
        """Whether elements of the matrix unit are floats."""
        return self.matrix_format in ("bf16", "fp32")

    @property
    def packed(self) -> int:
        """Elements of the matrix unit that a row has packed."""
        return self.row_bits // self.matrix_bits

    @property
    def packed_mode(self) -> str:
        """How an instruction names packed elements; those of 32 bits are words."""
        return f"mxu{self.matrix_bits}" if self.matrix_bits < 32 else "mxu"

    @property
    def row_bits(self) -> int:
        """Bits of a row."""
        return 32 * self.lanes

    @classmethod
    def ecp5(cls, **parameters: Any) -> Config:
        """Return a machine with the pipeline registers that an ECP5 needs; `parameters` go before these.

        Raises
        ------
        InputError
            For a value that no machine can have.
        """
        registers = {"issue_registers": 1, "read_registers": 1, "pre_registers": 5, "alu_registers": 5}
        levels = cls(**{name: value for name, value in parameters.items() if name == "lanes"}).levels
        stages = {"reduce_registers": 1 + levels, "float_stages": 10, "function_stages": 28}
        return cls(**registers | stages | {"float_lanes": 4} | parameters)

    def to_json(self) -> str:
        """Return the configuration as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Config:
        """Read a text that `to_json` wrote.

        Raises
        ------
        InputError
            For text that is not JSON, and unknown or impossible parameters.
        """
        try:
            values: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"the configuration is not JSON: {error}",
                where="Config",
                hint="give text that Config.to_json wrote",
            ) from None
        known = {field.name for field in fields(cls)}
        if not isinstance(values, dict) or not set(values) <= known:
            raise InputError(
                "the configuration has unknown parameters",
                where="Config",
                hint="known: " + ", ".join(sorted(known)),
            )
        return cls(**values)

    def c_header(self) -> str:
        """Return the parameters as preprocessor definitions, which drivers and the simulator include."""
        lines = ["#pragma once"]
        for name, value in asdict(self).items():
            text = f'"{value}"' if isinstance(value, str) else str(int(value))
            lines.append(f"#define TPU_{name.upper()} {text}")
        lines.append(f"#define TPU_MATRIX_BITS {self.matrix_bits}")
        lines.append(f"#define TPU_MATRIX_FLOAT {int(self.matrix_is_float)}")
        lines += [f"#define TPU_LATENCY {self.latency}", f"#define TPU_CHECK {self.check}"]
        lines.append(f"#define TPU_LATENCIES {{{', '.join(map(str, self.latencies))}}}")
        lines.append(
            f"#define TPU_INTERVALS {{{', '.join(str(self.interval(kind)) for kind in range(len(self.latencies)))}}}"
        )
        lines += [f"#define TPU_LEVELS {self.levels}", f"#define TPU_CROSSINGS {self.crossings}"]
        lines += [f"#define TPU_REDUCTIONS {self.reductions}"]
        lines += [f"#define TPU_LOOP_DEPTH {LOOP_DEPTH}", f"#define TPU_DMA_FIFO {DMA_FIFO}"]
        lines += [f"#define TPU_ADDRESS_BITS {ADDRESS_BITS}"]
        return "\n".join(lines) + "\n"
