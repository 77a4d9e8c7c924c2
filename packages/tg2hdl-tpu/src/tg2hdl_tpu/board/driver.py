"""A processor behind a link: bundles run on it as on the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tg2hdl_host import Device, connect
from tg2hdl_host.description import read_files
from tg2hdl_ir import InputError, SimulationError
from tg2hdl_ir.turns import in_turn
from tg2hdl_tpu.board.command import HEADER, INSTRUCTION_WORDS, LIMIT, REPLY
from tg2hdl_tpu.bundle import Bundle
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.isa import FIELDS, Instruction, Trap, encode
from tg2hdl_tpu.machine import Result

__all__ = ["Processor", "clear_program", "command", "connect_processor", "read_config"]

_MOST = (1 << FIELDS["count"].width) - 1
_DIVISOR = 8
"""Clock cycles of a bit on a simulated line."""


def read_config(folder: str | PathLike[str]) -> Config:
    """The machine in a folder that ``tg2hdl tpu build`` wrote.

    Raises
    ------
    InputError
        For a folder of another design.
    """
    facts = read_files(Path(folder))
    if "processor" not in facts:
        raise InputError(
            f"{folder} has no processor", hint="give the folder that `tg2hdl tpu build -o` wrote"
        )
    return Config.from_json(facts["processor"])


def connect_processor(device: str, folder: str | PathLike[str] | None = None, **options: Any) -> Processor:
    """Connect to a processor on a board, or to a simulation of it.

    Parameters
    ----------
    device : str
        A serial port such as ``/dev/ttyUSB0``, or ``simulate:DIR`` for a folder that ``tg2hdl tpu build`` wrote.
    folder : path
        Such a folder; needed for a serial port.
    options
        `baud` and `timeout` of `tg2hdl_host.connect`; `engine` of a simulation.

    Raises
    ------
    InputError
        Without a folder, or for one of another design.
    """
    simulated = device.startswith("simulate:")
    folder = device.removeprefix("simulate:") if simulated else folder
    if folder is None:
        raise InputError(
            f"the machine of the processor at {device} is not known",
            hint="give the folder that `tg2hdl tpu build -o` wrote",
        )
    config = read_config(folder)
    if not simulated:
        return Processor(connect(device, folder, **options), config)
    return Processor(_simulated(config, read_files(Path(folder)), **options), config)


def _simulated(config: Config, files: dict[str, Any], engine: str = "auto") -> Device:
    from tg2hdl.simulated_line import SimulatedLine
    from tg2hdl_sim import SimulationModel, open_simulation
    from tg2hdl_tpu.board.processor import BoardProcessor

    (payload,) = (shape[0] for name, _, _, shape, *_ in files["buffers"] if name == "command")
    model = SimulationModel(BoardProcessor(config, payload - len(HEADER)))
    simulation = open_simulation(model, engine=engine, expected_cycles=10_000_000)
    return Device(SimulatedLine(simulation, _DIVISOR, LIMIT + 10_000), files=files, timeout=600.0)


def command(
    size: int,
    *,
    program: tuple[int, Sequence[int]] = (0, ()),
    write: tuple[int, NDArray[np.int32] | None] = (0, None),
    limit: int = 0,
    read: tuple[int, int] = (0, 0),
) -> NDArray[np.uint32]:
    """Words of a command of so many; see `board.command`.

    Parameters
    ----------
    size : int
        Words of 32 bits in the host's buffer.
    program : (int, sequence of int)
        First address in the program memory, and words of instructions.
    write : (int, ndarray of int32 or None)
        First row of the external memory, and rows to write.
    limit : int
        Cycles after which the run ends; 0 runs nothing.
    read : (int, int)
        First row of the external memory, and rows to read.
    """
    at, words = program
    to, rows = write
    parts = [(word >> 32 * n) & 0xFFFFFFFF for word in words for n in range(INSTRUCTION_WORDS)]
    head = [at, len(words), to, 0 if rows is None else len(rows), limit, *read, 0]
    found = np.zeros(size, np.uint32)
    body = np.array([*head, *parts], np.uint32)
    found[: len(body)] = body
    if rows is not None:
        found[len(body) : len(body) + rows.size] = rows.view(np.uint32).reshape(-1)
    return found


def clear_program(config: Config) -> list[int]:
    """A program that makes scratchpad, external memory, weights, sums and indices zero."""
    rows, program = config.vmem_rows, []
    for first in range(0, rows, _MOST):
        program.append(
            Instruction("and", dst=first, dst_stride=1, constant=1, count=min(_MOST, rows - first))
        )
    program += [Instruction("tile", pre=2), Instruction("index")]
    if config.output_stationary:
        program.append(Instruction("preload", count=config.rows))
    block = min(rows, _MOST, config.xmem_rows)
    program += [
        Instruction("loop", b=config.xmem_rows // block),
        Instruction("store", b_reg=1, count=block),
        Instruction("set", dst_reg=1, a_reg=1, b=block),
        Instruction("end"),
    ]
    if config.xmem_rows % block:
        program.append(Instruction("store", b_reg=1, count=config.xmem_rows % block))
    return [encode(i) for i in (*program, Instruction("halt"))]


class Processor:
    """A tensor processor behind a link; a context manager.

    Several threads may call it: their bundles follow one another.

    Parameters
    ----------
    device : Device
        Of `tg2hdl_host`.
    config : Config
        Of the machine.
    """

    def __init__(self, device: Device, config: Config) -> None:
        self.device, self.config = device, config
        buffer = device.description.buffers["command"]
        self._size = int(buffer.shape[0])
        self._room = self._size - len(HEADER)
        self._used = config.imem_depth  # places of the program memory that may hold something

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the link; a simulation ends."""
        self.device.close()

    def _do(self, **parts: Any) -> tuple[Result, NDArray[np.int32]]:
        """Execute a command; how the run in it ended, and the rows that were read."""
        reply = self.device(command(self._size, **parts))
        if reply[4]:
            raise SimulationError(
                "the processor refused a command", hint="reset the board, and connect again"
            )
        count = parts.get("read", (0, 0))[1]
        words = reply[REPLY : REPLY + count * self.config.lanes].view(np.int32)
        result = Result(Trap(int(reply[0])), int(reply[1]), int(reply[2]) | int(reply[3]) << 32, 0, 0)
        return result, words.reshape(count, self.config.lanes).copy()

    def _move(self, instruction: Instruction, **parts: Any) -> NDArray[np.int32]:
        """Run a transfer, with rows that come before it or go after it."""
        words = [encode(instruction), encode(Instruction("halt"))]
        self._used = max(self._used, len(words))
        result, rows = self._do(program=(0, words), limit=LIMIT, **parts)
        assert result.trap is Trap.NONE, "a transfer inside of the memories"
        return rows

    @property
    def _staged(self) -> int:
        """Rows that go through the external memory at a time."""
        return min((self._room - 2 * INSTRUCTION_WORDS) // self.config.lanes, self.config.xmem_rows, _MOST)

    @in_turn
    def write(self, space: str, start: int, rows: NDArray[np.int32]) -> None:
        """Write rows of ``vmem`` or ``xmem``; those of the scratchpad replace the program.

        Parameters
        ----------
        space : str
            ``vmem`` or ``xmem``.
        start : int
            First row.
        rows : ndarray of int32
            Words of 32 bits: one row for each of the memory, one column for each lane.

        Raises
        ------
        LinkError
            When the board does not answer.
        SimulationError
            When the processor refuses a command.
        """
        if space == "xmem":
            step = self._room // self.config.lanes
            for n in range(0, len(rows), step):
                self._do(write=(start + n, rows[n : n + step]))
            return
        kept = self.read("xmem", 0, self._staged)
        for n in range(0, len(rows), self._staged):
            part = rows[n : n + self._staged]
            self._move(Instruction("load", dst=start + n, count=len(part)), write=(0, part))
        self.write("xmem", 0, kept)

    @in_turn
    def read(self, space: str, start: int, count: int) -> NDArray[np.int32]:
        """Read rows of ``vmem`` or ``xmem``; those of the scratchpad replace the program.

        Parameters
        ----------
        space : str
            ``vmem`` or ``xmem``.
        start : int
            First row.
        count : int
            Rows.

        Raises
        ------
        LinkError
            When the board does not answer.
        SimulationError
            When the processor refuses a command.
        """
        step = self._room // self.config.lanes
        if space == "xmem":
            found = [
                self._do(read=(n, min(step, start + count - n)))[1] for n in range(start, start + count, step)
            ]
            return np.concatenate(found)
        step = self._staged
        kept, found = self.read("xmem", 0, step), []
        for n in range(start, start + count, step):
            part = min(step, start + count - n)
            found.append(self._move(Instruction("store", a=n, count=part), read=(0, part)))
        self.write("xmem", 0, kept)
        return np.concatenate(found)

    @in_turn
    def load_program(self, words: Sequence[int]) -> None:
        """Replace the program; words behind it are lost."""
        padded = [*words, *[0] * (self._used - len(words))]
        step = self._room // INSTRUCTION_WORDS
        for n in range(0, len(padded), step):
            self._do(program=(n, padded[n : n + step]))
        self._used = len(words)

    @in_turn
    def clear(self) -> None:
        """Make all memories zero."""
        self.load_program(clear_program(self.config))
        self._do(limit=LIMIT)

    @in_turn
    def run_bundle(self, bundle: Bundle, *, limit: int = LIMIT) -> Result:
        """Clear the memories, load a bundle, run it and read its outputs.

        Parameters
        ----------
        bundle : Bundle
        limit : int
            In cycles; a run that takes more ends.

        Raises
        ------
        InputError
            For a bundle of another machine, or more cycles than the hardware counts.
        LinkError
            When the board does not answer.
        """
        if bundle.config != self.config:
            raise InputError(
                "the bundle is for another configuration",
                where="bundle",
                hint=f"assemble it for {self.config.to_json()}",
            )
        if not 1 <= limit <= LIMIT:
            raise InputError(f"a limit of {limit:,} cycles", hint=f"use 1 to {LIMIT:,}")
        self.clear()
        for region in sorted(bundle.data, key=lambda region: region.space):
            self.write(region.space, region.start, region.rows)
        self.load_program(bundle.program)
        result, _ = self._do(limit=limit)
        outputs = {o.name: self.read(o.space, o.start, o.count) for o in bundle.outputs}
        return Result(result.trap, result.pc, result.cycles, 0, 0, outputs)
