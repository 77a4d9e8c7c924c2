"""Measures the kernels: cycles from start to halt, and through the host port.

*Kernel* counts the cycles of a run whose program and operands are in the machine.

*Total* counts all that the host port sees.  In each cycle the port takes one instruction (128 bits) and one row (512
bits) and shows the row that was written in the cycle before, all at the same time (`hardware.host`).  The count begins
with the cycle of the first instruction and the first row, which also starts the machine, and ends with the cycle in
which the port shows the last result and `done`: it is the cycles of the run and two more.  The link between the
host and the port is not counted.  The host packs int8 operands of a matrix product, four to a word; all else is
int32.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tg2hdl_ir import InputError, Tg2hdlError
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.kernels import KERNELS, RESULTS, Kernel, make_kernel
from tg2hdl_tpu.machine import Result, run_bundle

__all__ = ["Measured", "bench", "bench_facts", "bench_table", "geomean"]


@dataclass(frozen=True)
class Measured:
    """Figures of one kernel, whose result was that of numpy in both runs.

    Parameters
    ----------
    kernel : str
    elements : int
    instructions, rows : int
        Packets of the host.
    cycles, total : int
        From start to halt, and through the host port.
    """

    kernel: str
    elements: int
    instructions: int
    rows: int
    cycles: int
    total: int

    @property
    def per_cycle(self) -> float:
        """Elements per cycle from start to halt."""
        return self.elements / self.cycles

    @property
    def per_cycle_total(self) -> float:
        """Elements per cycle through the host port."""
        return self.elements / self.total


def geomean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(list(values)))))


def _checked(kernel: Kernel, result: Result, what: str) -> Result:
    found = kernel.found(result.outputs["r"])
    if result.trap or not np.array_equal(found, kernel.expected):
        raise Tg2hdlError(
            f"the result is wrong (trap {result.trap.name.lower()})",
            where=f"{kernel.name}, {what}",
            hint="please report this with the configuration of the machine",
        )
    return result


def bench(
    config: Config | None = None,
    *,
    only: Sequence[str] = (),
    engine: str = "isa",
    progress: Callable[[str], None] = lambda name: None,
) -> list[Measured]:
    """Measure kernels.

    Parameters
    ----------
    config : Config, optional
        A machine of 16 lanes and a 4x4 matrix unit.
    only : sequence of str
        Names; all kernels by default.
    engine : str
        ``isa`` is the simulator in software; others are engines of `tg2hdl_sim` for the netlist.
    progress : callable
        Gets the name of each kernel before it is run.

    Raises
    ------
    InputError
        For unknown names, and for other machines.
    Tg2hdlError
        When a result is not that of numpy.
    """
    config = config or Config()
    if (config.lanes, config.rows, config.columns) != (16, 4, 4) or config.vmem_rows < 2 * RESULTS:
        raise InputError(
            f"a machine of {config.lanes} lanes, {config.rows}x{config.columns}, {config.vmem_rows} rows",
            where="bench",
            hint="the kernels are written for 16 lanes, 4x4 and 1,024 rows",
        )
    unknown = [name for name in only if name not in KERNELS]
    if unknown:
        raise InputError(
            f"no kernel is named {unknown[0]!r}", where="bench", hint="kernels: " + ", ".join(KERNELS)
        )
    found = []
    with ExitStack() as stack:
        hardware = None
        if engine != "isa":
            from tg2hdl_tpu.hardware.simulate import Hardware

            hardware = stack.enter_context(Hardware(config, engine=engine))
        for name in only or KERNELS:
            progress(name)
            kernel = make_kernel(name, config)
            if hardware is None:
                resident = run_bundle(kernel.bundle)
                streamed = run_bundle(kernel.bundle, streamed=True)
                total = streamed.cycles + 2
            else:
                resident = hardware.run_bundle(kernel.bundle)
                streamed, total, seen, _ = hardware.run_streamed(kernel.bundle, results=RESULTS)
                if not np.array_equal(seen[RESULTS:][: len(streamed.outputs["r"])], streamed.outputs["r"]):
                    raise Tg2hdlError(
                        "the host port shows other results than the memory has",
                        where=name,
                        hint="please report this with the configuration of the machine",
                    )
            _checked(kernel, resident, "operands in the machine")
            _checked(kernel, streamed, "through the host port")
            rows = sum(len(region.rows) for region in kernel.bundle.data)
            found.append(
                Measured(name, kernel.elements, len(kernel.bundle.program), rows, resident.cycles, total)
            )
    return found


def bench_facts(measured: Sequence[Measured], config: Config, engine: str) -> dict[str, Any]:
    """Return the figures as JSON has them; `bench` has compared all results with numpy.

    Parameters
    ----------
    measured : sequence of Measured
        One for each kernel.
    config : Config
        The machine.
    engine : str
        Which has simulated it.
    """
    return {
        "config": json.loads(config.to_json()),
        "engine": engine,
        "kernels": [
            {
                **asdict(m),
                "correct": True,
                "elements_per_cycle": round(m.per_cycle, 3),
                "elements_per_cycle_total": round(m.per_cycle_total, 3),
            }
            for m in measured
        ],
        "geomean_kernel": round(geomean(m.per_cycle for m in measured), 3),
        "geomean_total": round(geomean(m.per_cycle_total for m in measured), 3),
    }


def bench_table(measured: Sequence[Measured], config: Config, engine: str) -> str:
    """Return the figures as a table in Markdown.

    Parameters
    ----------
    measured : sequence of Measured
        One for each kernel.
    config : Config
        The machine.
    engine : str
        Which has simulated it.
    """
    names = ("issue", "read", "pre", "alu", "reduce")
    depth = [getattr(config, f"{name}_registers") for name in names]
    lines = [
        f"4x4 int8 and 16 lanes, pipeline registers {', '.join(map(str, depth))}"
        f" (a row is written {config.latency} cycles after its issue), engine {engine}.",
        "",
        "| kernel | result | elements | cycles, start to halt | elements/cycle | cycles, host port | elements/cycle |",
        "|---|---|---|---|---|---|---|",
    ]
    for m in measured:
        lines.append(
            f"| {m.kernel} | right | {m.elements} | {m.cycles} | {m.per_cycle:.2f}"
            f" | {m.total} | {m.per_cycle_total:.2f} |"
        )
    means = [geomean(getattr(m, name) for m in measured) for name in ("per_cycle", "per_cycle_total")]
    lines.append(f"| geometric mean | | | | **{means[0]:.2f}** | | **{means[1]:.2f}** |")
    return "\n".join([*lines, ""])
