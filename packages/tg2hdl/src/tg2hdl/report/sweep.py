"""The design with other numbers of multipliers: exact cycles and estimated area, within a budget of time.

Runs as ``python -m tg2hdl.report.sweep`` in a process of its own, which is ended when the time is over.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tg2hdl.exploration.figures import RESOURCES, Figures, PointChoice, PointPlanner
from tg2hdl_ir import ProgramIR
from tg2hdl_top import CompileOptions

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["PART", "swept"]

PART = "ecp5-45k"
"""Part for which area is estimated where none is given."""

LARGEST = 256
"""Most multipliers of a design that is planned."""

NEAR = 5
"""Designs that are planned and estimated before any other is."""


def swept(
    accelerator: CompiledModel,
    part: str = PART,
    seconds: float = 20,
    progress: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Figures of the designs that could be planned and estimated in time, by number of multipliers.

    Parameters
    ----------
    accelerator : CompiledModel
    part : str
        FPGA part.
    seconds : float
        Budget of time.
    progress : callable, optional
        Called with a message after each design.

    Returns
    -------
    dict
        ``part``, ``seconds``, ``now``: the multipliers of this design, and ``points``: dicts with ``multipliers``,
        ``cycles``, ``interval``, ``bram`` (exact), ``lut``, ``ff``, ``dsp`` and ``fmax`` (None if unknown; where
        ``estimated`` is False, the least that the plan needs), and ``refusal``: why the design does not fit.
    """
    options = accelerator.options
    now = options.multipliers or 1
    points: dict[int, dict[str, Any]] = {}
    work = (accelerator.captured.program, accelerator.captured.var_vals, part, options, _ladder(now))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(
        [sys.executable, "-m", "tg2hdl.report.sweep"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
    ) as process:  # fmt: skip
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(pickle.dumps(work))
            process.stdin.close()
            for line in process.stdout:
                point = json.loads(line)
                points[point["multipliers"]] = point
                progress(f"multipliers={point['multipliers']}: {point['cycles']:,} cycles")
        except (BrokenPipeError, ValueError):
            pass  # The time was over.
        finally:
            timer.cancel()
            process.kill()
    return {"part": part, "seconds": seconds, "now": now, "points": [points[n] for n in sorted(points)]}


def _ladder(now: int) -> list[int]:
    """Numbers of multipliers, those near to that of the design first."""
    powers = [1 << n for n in range(LARGEST.bit_length())]
    return sorted({now, *powers}, key=lambda n: (n != now, abs(math.log2(n / now))))


def _point(options: CompileOptions, found: Figures) -> dict[str, Any]:
    assert options.multipliers is not None, "the ladder gives it"
    needs = {name: found.needs.get(name) for name in RESOURCES}
    return {
        "multipliers": options.multipliers,
        "cycles": found.cycles,
        "interval": found.interval,
        **needs,
        "fmax": found.fmax,
        "has": dict(found.has),
        "estimated": found.is_estimated,
        "refusal": found.refusal,
    }


def main() -> None:
    """Plan all designs, then estimate them; a line of JSON for each, as it becomes known."""
    program: ProgramIR
    program, values, part, options, ladder = pickle.load(sys.stdin.buffer)
    planner = PointPlanner({"": (program, values)}, part)
    choices = [PointChoice(replace(options, multipliers=n)) for n in ladder]
    for near in (choices[:NEAR], choices[NEAR:]):
        designs = []
        for choice in near:
            found, design = planner.planned(choice)
            designs.append(design)
            if found.cycles is not None:
                print(json.dumps(_point(choice.options, found)), flush=True)
        for choice, design in zip(near, designs, strict=True):
            found = planner.estimated(choice, design)
            if found.cycles is not None:
                print(json.dumps(_point(choice.options, found)), flush=True)


if __name__ == "__main__":
    main()
