"""Share of the processor's time of a compilation that its validation takes, what it covers, and false alarms.

The check of a saved design that is loaded is measured in the same way, beside the whole compilation.

    python benchmarks/validation/run.py --jobs 8             conformance programs, models, large designs
    python benchmarks/validation/run.py --only "ResNet"      some of them, printed
    python benchmarks/validation/run.py --mode full          with another mode, printed

The time is that from the call to the design, imports excluded; that of the validation is measured inside it.  Results
go to validation.json and validation.md beside this file.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl_backend import capture
from tg2hdl_backend.testing.programs import PROGRAMS
from tg2hdl_ir import Tg2hdlError, ValidationError
from tg2hdl_ir.workers import Workers
from tg2hdl_top import CompileOptions, Design, compile_program, design
from tg2hdl_top.validation import validate
from tg2hdl_top.validation.planned import PlannedKernels

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / name) for name in ("compile", "fuzz", "models")]

from models import MODELS  # noqa: E402
from record import write_record  # noqa: E402
from run import SCALE  # noqa: E402

Case = tuple[str, str, Callable[[], tuple[Any, tuple[Any, ...]]], dict[str, Any]]
"""Group, name, what makes a model and its inputs, and options."""

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"weights": "loadable"},
    {"float_order": "relaxed"},
    {"schedule": "overlap"},
)
MULTIPLIERS = (1, 4, 16)


def cases() -> Iterator[Case]:
    """All compilations."""
    for number, (name, program) in enumerate(PROGRAMS.items()):
        for place, options in enumerate(OPTIONS):
            multipliers = MULTIPLIERS[(number + place) % len(MULTIPLIERS)]
            yield "conformance programs", name, lambda p=program: p, {"multipliers": multipliers, **options}
    for model in MODELS:
        for case in model.cases:
            options = {"multipliers": case.multipliers, **case.options}
            yield (
                "models",
                model.name,
                lambda m=model: (m.make(), m.inputs(np.random.default_rng(0))),
                options,
            )
    for name, (make, multipliers) in SCALE.items():
        yield "large designs", name, make, {"multipliers": multipliers}


class Measured:
    """Time of functions inside another one, which are replaced until they are restored."""

    def __init__(self, *places: tuple[Any, str]) -> None:
        self.seconds = 0.0
        self.replaced = [(owner, name, getattr(owner, name)) for owner, name in places]
        for owner, name, function in self.replaced:
            setattr(owner, name, self._measured(function))

    def _measured(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any, **options: Any) -> Any:
            started = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += time.process_time() - started

        return measured

    def restore(self) -> None:
        """Put the functions back."""
        for owner, name, function in self.replaced:
            setattr(owner, name, function)


def measure(
    make: Callable[[], tuple[Any, tuple[Any, ...]]], options: dict[str, Any], mode: str
) -> dict[str, Any]:
    """Compile once; times in seconds."""
    model, inputs = make()
    measured = Measured((validate, "compared"))
    planned = Measured((PlannedKernels, "compare"), (PlannedKernels, "sample"))
    started = time.process_time()
    try:
        made = compile_program(capture(model, *inputs).program, CompileOptions(**options, validate=mode))
    except ValidationError as error:
        return {"alarm": str(error)}
    except Tg2hdlError as error:
        return {"refused": error.message}
    finally:
        planned.restore()
        measured.restore()
    found = made.validation
    seconds = time.process_time() - started
    checked = Measured((design, "check_parts"))
    try:
        Design.from_json(made.to_json())
    except Tg2hdlError as error:
        return {"alarm": f"when it is loaded: {error}"}
    finally:
        checked.restore()
    return {
        "compile": seconds - measured.seconds,
        "validation": measured.seconds,
        "captured": measured.seconds - planned.seconds,
        "load": checked.seconds,
        "kernels": found.kernels,
        "whole": found.whole,
        "sliced": found.sliced,
        "told": found.format(),
    }


def _numbered(mode: str, number: int) -> tuple[tuple[str, str, dict[str, Any]], dict[str, Any]]:
    """Group, name and options of a case, and what was measured."""
    group, name, make, options = next(islice(cases(), number, None))
    return (group, name, options), measure(make, options, mode)


def _rows(chosen: list[int], mode: str, jobs: int) -> Iterator[Any]:
    """Measured cases in their order; models and large designs, which take longest, begin first."""
    with Workers(jobs) as workers:
        yield from reversed(list(workers.map(_numbered, chosen[::-1], mode)))


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--mode", default="auto", choices=("auto", "full", "each"))
    parser.add_argument("--jobs", type=int, default=1, help="cases that are measured at once (default: 1)")
    arguments = parser.parse_args()
    is_all = not arguments.only and arguments.mode == "auto"
    chosen = [n for n, case in enumerate(cases()) if arguments.only in case[1]]
    groups: dict[str, list[dict[str, Any]]] = {}
    large: dict[str, str] = {}
    alarms: dict[str, str] = {}
    for (group, name, options), row in _rows(chosen, arguments.mode, arguments.jobs):
        told = ", ".join(f"{key}={value}" for key, value in options.items())
        if "alarm" in row:
            alarms[f"{name}, {told}"] = row["alarm"].splitlines()[0]
            print("ALARM", name, told, row["alarm"], flush=True)
        if "compile" not in row:
            continue
        groups.setdefault(group, []).append(row)
        share = f"{row['validation']:.2f} s beside {row['compile']:.2f} s, loaded {row['load']:.2f} s"
        if group != "conformance programs":
            covered = f"{row['whole'] + row['sliced']} of {row['kernels']} kernels"
            large[f"{name}, {told}"] = f"{share}, {covered}"
        if group != "conformance programs" or not is_all:
            print(name, told, share, row["told"], flush=True)
    totals: dict[str, Any] = {}
    for group, rows in groups.items():
        beside = sum(row["validation"] for row in rows) / sum(row["compile"] for row in rows)
        kernels, covered = (sum(row[key] for row in rows) for key in ("kernels", "whole"))
        covered += sum(row["sliced"] for row in rows)
        totals[f"{group}: compilations"] = len(rows)
        totals[f"{group}: time of the validation beside all else"] = f"{100 * beside:.1f} %"
        captured = sum(row["captured"] for row in rows) / sum(row["compile"] for row in rows)
        totals[f"{group}: of this, captured against pre-lane kernels"] = f"{100 * captured:.1f} %"
        loads = sum(row["load"] for row in rows) / sum(row["compile"] + row["validation"] for row in rows)
        totals[f"{group}: check of the saved design beside the compilation"] = f"{100 * loads:.1f} %"
        totals[f"{group}: kernels compared as planned"] = f"{covered} of {kernels}"
    totals["false alarms"] = len(alarms)
    print(totals)
    if is_all:
        title = "Share of the validation in the time of a compilation"
        command = f"python benchmarks/validation/run.py --jobs {arguments.jobs}"
        write_record(HERE / "validation.json", title, command, totals, each=large, alarms=alarms)


if __name__ == "__main__":
    main()
