"""Self-checking testbenches of a design, in Verilog and for cocotb."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from tg2hdl.hdl_files import module_name
from tg2hdl.testbench.vectors import PORTS, port_vectors
from tg2hdl.testbench.verilog import verilog_testbench
from tg2hdl_ir import InputError
from tg2hdl_ir.files import write_files

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["check_testbenches", "write_testbenches"]


def check_testbenches(accelerator: CompiledModel) -> None:
    """Refuse a design without testbenches.

    Raises
    ------
    InputError
        For other host ports than those that a testbench drives, and for weights in memory outside the chip.
    """
    if accelerator.design.streams_weights:
        raise InputError(
            "there is no testbench with memory outside the chip",
            hint="simulate the design here, or connect a model of that memory with the image to its port",
        )
    kinds = [port.kind for port in accelerator.design.ports]
    if len(kinds) > 1 or kinds[0] not in PORTS:
        raise InputError(
            f"there is no testbench for the host port {' and '.join(kinds)}",
            hint=f"compile with one of {', '.join(PORTS)}: the design behind the port is the same",
        )


def write_testbenches(accelerator: CompiledModel, folder: Path, label: str, runs: int = 4) -> list[Path]:
    """Write ``LABEL_tb.v``, and ``LABEL_tb.py`` with its vectors in ``LABEL_tb.json``; returns the paths.

    Parameters
    ----------
    runs : int
        Random inputs, with the results of the golden model one after the other from the power-on state.

    Raises
    ------
    InputError
        As `check_testbenches`.
    """
    check_testbenches(accelerator)
    vectors = port_vectors(accelerator, runs)
    base = folder / f"{module_name(label)}_tb"
    cocotb = (files("tg2hdl.testbench") / "cocotb_bench.py.in").read_text()
    contents = {
        ".v": verilog_testbench(vectors),
        ".py": cocotb.replace("NAME", base.name).replace("DESIGN", json.dumps(label)[1:-1]),
        ".json": json.dumps(vectors) + "\n",
    }
    return write_files(folder, {base.with_suffix(suffix).name: text for suffix, text in contents.items()})
