"""The programs of `tg2hdl_backend.testing` on the device TINYTPU, against tinygrad's PYTHON device.

    python benchmarks/tpu/conformance.py
    python benchmarks/tpu/conformance.py --select matmul
    python benchmarks/tpu/conformance.py --rtl levelized --resume --seconds 600

Integers and bools must agree in every bit; floats to 1e-5 of the largest result, since the PYTHON device does not round
the products of sums, and NaN and infinities must be in the same places.  Programs of double are refused by name.

With `--rtl`, an engine that simulates the hardware, each kernel runs on the simulator of instructions and on the
netlist of a machine with the optional parts that it uses: all bits of its tensors and the cycles must be the same.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl.bench import json_text
from tg2hdl_backend import own_result
from tg2hdl_backend.testing import PROGRAMS
from tg2hdl_ir import Tg2hdlError
from tg2hdl_tpu.device.image import image
from tg2hdl_tpu.device.runtime import LoadedKernel

HERE = Path(__file__).parent
OUTCOMES = ("right", "no kernel", "refused", "no reference", "too long", "failed", "wrong")


class TooLongError(BaseException):
    """A program that takes longer than its limit."""


def difference(found: Any, expected: Any) -> str:
    """Say how two results differ; empty when they agree."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype} {found.shape} in place of {expected.dtype} {expected.shape}"
    if found.dtype.kind in "biu":
        count = int((found != expected).sum())
        return f"{count} of {found.size} integers differ" if count else ""
    a, b = (np.asarray(x, np.float64) for x in (found, expected))
    special = ~(np.isfinite(a) & np.isfinite(b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not same[special].all():
        return f"a NaN or infinity differs: {a[special & ~same][:3]} in place of {b[special & ~same][:3]}"
    if special.all():
        return ""
    scale = max(float(np.abs(b[~special]).max()), 1e-30)
    step = {2: 1e-2, 1: 0.3}.get(found.dtype.itemsize, 1e-5)
    worst = float(np.abs(a - b)[~special].max()) / scale
    return f"off by {worst:.1e} of the largest result" if worst > step else ""


@contextmanager
def on_netlist(engine: str) -> Iterator[tuple[list[str], list[int]]]:
    """Run each kernel on the netlist too; yields how the two differ, and the cycles of the kernels."""
    original = LoadedKernel._run
    differences: list[str] = []
    cycles: list[int] = []

    def run(
        self: LoadedKernel, words: Any, starts: dict[int, int], sizes: dict[int, int], written: list[int]
    ) -> Any:
        rows = image().rows
        places = {slot: slice(starts[slot], starts[slot] + sizes[slot]) for slot in sizes}
        before = {slot: rows[place].copy() for slot, place in places.items()}
        result = original(self, words, starts, sizes, written)
        after = {slot: rows[place].copy() for slot, place in places.items()}
        for slot, content in before.items():
            rows[places[slot]] = content
        options = self.options
        try:
            self.options = replace(options, engine=engine)
            netlist = original(self, words, starts, sizes, written)
        finally:
            self.options = options
        cycles.append(netlist.cycles)
        if netlist.cycles != result.cycles:
            differences.append(f"{self.kernel.name}: {netlist.cycles} cycles in place of {result.cycles}")
        if any((rows[places[slot]] != after[slot]).any() for slot in written):
            differences.append(f"{self.kernel.name}: other bits")
        for slot, content in after.items():
            rows[places[slot]] = content
        return result

    LoadedKernel._run = run  # type: ignore[method-assign]
    try:
        yield differences, cycles
    finally:
        LoadedKernel._run = original  # type: ignore[method-assign]


def run_on_netlist(name: str, limit: int, engine: str) -> dict[str, Any]:
    """Return the outcome of a program: whether netlist and simulator of instructions agree."""
    model, inputs = PROGRAMS[name]
    started, outcome, reason = time.process_time(), "right", ""
    with on_netlist(engine) as (differences, cycles), limited(limit), np.errstate(all="ignore"):
        try:
            own_result(model, *inputs, device="TINYTPU")
        except TooLongError:
            outcome, reason = "too long", f"more than {limit} CPU seconds"
        except Exception as error:
            outcome, reason = ("refused" if refusal(error) else "failed"), str(refusal(error) or error)
    if outcome == "right" and not cycles:
        outcome, reason = "no kernel", "tinygrad only changes the view"
    if differences:
        outcome, reason = "wrong", "; ".join(differences)
    seconds = round(time.process_time() - started, 1)
    found = {"program": name, "outcome": outcome, "reason": reason, "seconds": seconds}
    return found | {"kernels": len(cycles), "cycles": sum(cycles), "commit": commit()}


@cache
def commit() -> str:
    """The state of the repository that is measured."""
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()


def refusal(error: BaseException) -> BaseException | None:
    """The error of ours behind another."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Tg2hdlError):
        cause = cause.__cause__
    return cause


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise `TooLongError` after so many CPU seconds."""

    def too_long(*_: object) -> None:
        raise TooLongError

    signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def run(name: str, limit: int) -> dict[str, Any]:
    """Return the outcome of a program."""
    model, inputs = PROGRAMS[name]
    found: dict[str, Any] = {"program": name, "outcome": "right", "reason": ""}

    started = time.process_time()
    try:
        with np.errstate(all="ignore"), limited(limit):
            results = own_result(model, *inputs, device="TINYTPU")
            try:
                expected = own_result(model, *inputs)
            except Tg2hdlError as error:
                found |= {"outcome": "no reference", "reason": str(error)}
            else:
                reasons = [difference(a, b) for a, b in zip(results, expected, strict=True)]
                if any(reasons):
                    found |= {"outcome": "wrong", "reason": "; ".join(filter(None, reasons))}
    except TooLongError:
        found |= {"outcome": "too long", "reason": f"more than {limit} CPU seconds"}
    except Exception as error:
        cause = refusal(error)
        found |= {"outcome": "failed" if cause is None else "refused", "reason": str(cause or error)}
    return found | {"seconds": round(time.process_time() - started, 1)}


def page(found: dict[str, Any]) -> str:
    """What ran on the netlist, and why the rest did not."""
    programs = found["programs"]
    counts = ", ".join(f"{n} {k}" for k, n in found["counts"].items() if n)
    kernels, cycles = (sum(o[k] for o in programs) for k in ("kernels", "cycles"))
    states = ", ".join(sorted({o["commit"] for o in programs}))
    lines = [
        "# Conformance programs on the netlist of the tensor processor\n",
        "`python benchmarks/tpu/conformance.py --rtl levelized --resume`: each kernel on the simulator of",
        "instructions and on the netlist of a machine with the optional parts that it uses; all must agree.",
        f"{counts}, of {len(PROGRAMS)}; {kernels:,} kernels, {cycles:,} cycles. Measured at {states}.\n",
        "| program | outcome | why |",
        "|---|---|---|",
    ]
    for o in programs:
        if o["outcome"] != "right":
            why = " ".join(o["reason"].split()).replace("|", "\\|")[:160]
            lines.append(f"| {o['program']} | {o['outcome']} | {why} |")
    known = {o["program"] for o in programs}
    lines += [f"| {name} | not run | no run has come to it |" for name in PROGRAMS if name not in known]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--select", type=re.compile, default=re.compile(""))
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds that a program may take")
    parser.add_argument(
        "--rtl", metavar="ENGINE", help="compare the netlist with the simulator of instructions"
    )
    parser.add_argument(
        "--seconds", type=int, default=1 << 30, help="CPU seconds after which no program starts"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true", help="run only what is not right yet")
    options = parser.parse_args()
    options.json = options.json or HERE / ("conformance_rtl.json" if options.rtl else "conformance.json")
    known = {}
    if options.resume and options.json.exists():
        known = {o["program"]: o for o in json.loads(options.json.read_text())["programs"]}
    outcomes: list[dict[str, Any]] = []
    for name in PROGRAMS:
        if not options.select.search(name):
            outcomes += [known[name]] if name in known else []
            continue
        if known.get(name, {}).get("outcome") == "right":
            outcomes.append(known[name])
            continue
        if time.process_time() > options.seconds:
            outcomes += [known[name]] if name in known else []
            continue
        if options.rtl:
            found = run_on_netlist(name, options.limit, options.rtl)
        else:
            found = run(name, options.limit)
        outcomes.append(found)
        first = " ".join(found["reason"].split())[:150]
        print(f"{found['outcome']:12s} {name:40s} {found['seconds']:6.1f} s  {first}", flush=True)
        programs = list((known | {o["program"]: o for o in outcomes}).values())
        counts = {k: sum(o["outcome"] == k for o in programs) for k in OUTCOMES}
        options.json.write_text(json_text({"counts": counts, "programs": programs}))
    print(", ".join(f"{sum(o['outcome'] == k for o in outcomes)} {k}" for k in OUTCOMES))
    if options.rtl:
        options.json.with_suffix(".md").write_text(page(json.loads(options.json.read_text())))
    return int(any(o["outcome"] in ("wrong", "failed") for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
