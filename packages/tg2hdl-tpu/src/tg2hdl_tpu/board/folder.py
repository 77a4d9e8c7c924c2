"""The folder of a processor: its bitstream, and the files for drivers."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl_ir.files import npz_bytes, write_files
from tg2hdl_top.register_map import RegisterMap
from tg2hdl_tpu.board.command import HEADER, INSTRUCTION_WORDS, LIMIT, PAYLOAD, REPLY, host_shape
from tg2hdl_tpu.board.driver import command
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.isa import Instruction, encode

__all__ = ["build_folder"]


def build_folder(
    config: Config,
    folder: Path,
    *,
    board: str | None = None,
    clock: float | None = None,
    baud: int | None = None,
    payload: int = PAYLOAD,
    progress: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Write the folder of a processor; only for the simulation without a board.

    Parameters
    ----------
    clock, baud
        As of `tg2hdl_synth.boards.bitstream.build_bitstream`.
    payload : int
        Words of a command.

    Returns
    -------
    dict
        The fields of ``device.json`` besides the register map.

    Raises
    ------
    DesignTooLargeError
        When it does not fit the board, with the figures.
    SynthesisError
        When the timing does not hold.
    """
    facts: dict[str, Any] = {"processor": config.to_json()}
    if board is not None:
        from tg2hdl_synth.boards.bitstream import BoardComponent, build_bitstream
        from tg2hdl_tpu.board.processor import UNITS, BoardProcessor

        subject = BoardComponent(
            "tensor_processor",
            lambda: BoardProcessor(config, payload),
            UNITS,
            "take a larger board, or a smaller machine: --array, --lanes, --vmem-rows, --xmem-rows",
        )
        made = build_bitstream(subject, board, folder, clock=clock, baud=baud, progress=progress)
        facts |= {
            "board": board,
            "bitstream": made.path.name,
            "clock_mhz": made.clock,
            "fmax_mhz": made.fmax,
            "fmax_limit": made.limit,
            "baud": made.baud,
            "utilization": made.utilization,
            "by_part": made.by_part,
        }
    found = RegisterMap(host_shape(config, payload))
    contents: dict[str, str | bytes] = {
        "device.json": json.dumps(found.to_dict() | {"inputs": ["command"]} | facts, indent=1) + "\n",
        "registers.md": found.page(),
        "registers.h": found.c_header(),
        **{name: (files("tg2hdl_host") / "c" / name).read_text() for name in ("tg2hdl.h", "tg2hdl.c")},
    }
    contents["vectors.npz"] = npz_bytes(_vectors(config, payload), compressed=True)
    write_files(folder, contents)
    return facts


def _vectors(config: Config, payload: int) -> dict[str, Any]:
    """A command that adds random rows, and its reply; the cycles are those of the simulator."""
    from tg2hdl_tpu.machine import Machine

    count = (payload - 4 * INSTRUCTION_WORDS) // config.lanes
    rng = np.random.default_rng(1)
    rows = rng.integers(-(1 << 31), 1 << 31, (count, config.lanes), dtype=np.int64).astype(np.int32)
    program = [
        encode(i)
        for i in (
            Instruction("load", count=count),
            Instruction("add", a_stride=1, dst_stride=1, b=12345, constant=1, count=count),
            Instruction("store", count=count),
            Instruction("halt"),
        )
    ]
    machine = Machine(config)
    machine.xmem[:count] = rows
    machine.load_program(program)
    result = machine.run()
    reply = np.zeros(REPLY + payload, np.uint32)
    reply[:3] = result.trap, result.pc, result.cycles
    reply[REPLY : REPLY + rows.size] = machine.xmem[:count].view(np.uint32).reshape(-1)
    size = len(HEADER) + payload
    given = command(size, program=(0, program), write=(0, rows), limit=LIMIT, read=(0, count))
    return {"in0_0": given, "out0_0": reply}
