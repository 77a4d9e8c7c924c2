"""Whether a change keeps cycles and hardware: predicted cycles and digests of the RTLIL of many designs.

    python benchmarks/regression/digests.py               compare the fast cases with digests.json
    python benchmarks/regression/digests.py --all         compare all: table, convolutions, stencils, random programs
    python benchmarks/regression/digests.py --all --record     write digests.json

`text` is the digest of the RTLIL without source locations; `structure` is that of the RTLIL with its names numbered in
order of appearance, so that it survives a renaming. The status is 1 when a case differs. A case is fast when it was
recorded to compile in less than FAST seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl_ir.workers import Workers

HERE = Path(__file__).parent
RESULTS = HERE / "digests.json"
FAST = 1.0
RANDOM = 60
FAMILIES = ("generic", "ecp5")
CONVOLUTION_MULTIPLIERS = (8, 32)
STENCIL_LANES = (1, 2, 4, 8)

sys.path[:0] = [str(HERE.parent), str(HERE.parent / "convolutions")]

Case = Callable[[], Any]
"""Compiles the design and returns its accelerator."""


def cases() -> dict[str, Case]:
    """All cases by name."""
    return dict([*_table(), *_convolutions(), *_stencils(), *_random()])


def _table() -> Iterator[tuple[str, Case]]:
    import tg2hdl
    from tg2hdl.bench import load_workloads

    for workload in load_workloads(HERE.parent / "workloads.py"):
        for case in workload.cases:
            for family in FAMILIES:

                def compiled(workload: Any = workload, case: Any = case, family: str = family) -> Any:
                    options = tg2hdl.CompileOptions(
                        multipliers=case.multipliers or None, target=family, **case.options
                    )
                    inputs = workload.inputs(np.random.default_rng(1))
                    return tg2hdl.compile(workload.model(), *inputs, options=options)

                yield f"table: {workload.name} x{case.multipliers} {family}", compiled


def _convolutions() -> Iterator[tuple[str, Case]]:
    from run import SHAPES, accelerator_of

    for shape in SHAPES:
        for multipliers in CONVOLUTION_MULTIPLIERS:
            yield (
                f"convolution: {shape} x{multipliers}",
                lambda shape=shape, n=multipliers: accelerator_of(shape, n)[0],
            )


def _stencils() -> Iterator[tuple[str, Case]]:
    from stencils import STENCILS, accelerator_of

    for stencil in STENCILS:
        for lanes in STENCIL_LANES:
            yield (
                f"stencil: {stencil.name} {stencil.size[0]}x{stencil.size[1]} x{lanes}",
                lambda stencil=stencil, lanes=lanes: accelerator_of(stencil, lanes)[0],
            )


def _random() -> Iterator[tuple[str, Case]]:
    from hypothesis import HealthCheck, Phase, given, seed, settings

    import tg2hdl
    from tg2hdl_backend.testing.random_programs import Recipe, recipes

    found: list[Recipe] = []

    @seed(1)
    @settings(
        max_examples=RANDOM,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(recipes())
    def draw(recipe: Recipe) -> None:
        found.append(recipe)

    draw()
    for number, recipe in enumerate(dict.fromkeys(found)):
        lanes = 1 + number % 4
        name = f"random: {recipe.inputs} {recipe.steps} x{lanes}"
        yield name, lambda recipe=recipe, n=lanes: tg2hdl.compile(recipe, *recipe.arrays(), multipliers=n)


def structure(rtlil: str) -> str:
    """RTLIL whose names are numbers, in the order in which they appear."""
    numbers: dict[str, str] = {}
    return re.sub(
        r"(?<=[ \\{])[\\$][^\s\[\]]+", lambda m: numbers.setdefault(m[0], f"n{len(numbers)}"), rtlil
    )


def measure(name: str) -> dict[str, Any]:
    """Compile one case; a refusal is a result too."""
    from tg2hdl_ir import Tg2hdlError

    started = time.process_time()
    try:
        with np.errstate(all="ignore"):
            accelerator = _CASES[name]()
            text = accelerator.rtlil()
    except Tg2hdlError as error:
        return {"refused": str(error), "seconds": round(time.process_time() - started, 2)}
    return {
        "cycles": accelerator.predicted_cycles,
        "text": hashlib.sha256(text.encode()).hexdigest()[:16],
        "structure": hashlib.sha256(structure(text).encode()).hexdigest()[:16],
        "seconds": round(time.process_time() - started, 2),
    }


_CASES: dict[str, Case] = {}


def _start() -> None:
    _CASES.update(cases())


def _measured(_: None, name: str) -> dict[str, Any]:
    """A case, in a process that may be new."""
    if not _CASES:
        _start()
    return measure(name)


def differences(found: dict[str, Any], known: dict[str, Any], names_may_differ: bool) -> list[str]:
    """What of a result is not as recorded."""
    keys = ["refused", "cycles", "structure"] + ([] if names_may_differ else ["text"])
    return [f"{key} {known.get(key)} -> {found.get(key)}" for key in keys if found.get(key) != known.get(key)]


def main() -> int:
    """Compare or record; the exit status is 1 when something differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="also the cases that compile slowly")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--record", action="store_true", help="write the results to digests.json")
    parser.add_argument("--renamed", action="store_true", help="allow other names of signals")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    known = json.loads(RESULTS.read_text())["cases"] if RESULTS.exists() else {}
    _start()
    names = [n for n in _CASES if options.only in n]
    if not options.all:
        names = [n for n in names if n in known and known[n]["seconds"] < FAST]
    results: dict[str, Any] = {}
    wrong = 0
    before = sum(known[n]["seconds"] for n in names if n in known)
    with Workers(options.jobs) as workers:
        for name, found in zip(names, workers.map(_measured, names), strict=True):
            results[name] = found
            lines = differences(found, known[name], options.renamed) if name in known else ["new"]
            wrong += bool(lines)
            if lines:
                print(f"{name}: {'; '.join(lines)}", flush=True)
    print(
        f"{len(names)} cases, {wrong} differ; "
        f"{sum(r['seconds'] for r in results.values()):.0f} s of processor time, {before:.0f} s when recorded"
    )
    if options.record:
        from tg2hdl.bench import json_text, versions

        record = {
            "versions": versions(),
            "cases": {**known, **results} if options.only or not options.all else results,
        }
        RESULTS.write_text(json_text(record))
        return 0
    if not names:
        print("no cases: record them first with --all --record")
    return int(bool(wrong) or not names)


if __name__ == "__main__":
    raise SystemExit(main())
