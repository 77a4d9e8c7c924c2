"""Run the programs that must run: golden model against tinygrad's interpreter, or hardware against golden.

    python benchmarks/soak/breadth.py                      # golden model against tinygrad's interpreter
    python benchmarks/soak/breadth.py --hardware           # simulated hardware against the golden model
    python benchmarks/soak/breadth.py --hardware --select conv --json build/breadth.json

Every program runs or is refused with a reason; the command fails when a result is wrong or a program takes too long.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from record import write_record

from tg2hdl_backend.testing import PROGRAMS, compare_with_interpreter
from tg2hdl_ir.errors import Tg2hdlError

OUTCOMES = ("ok", "refused", "wrong", "failed")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def _too_long(*_: object) -> None:
    raise TimeoutError("the program takes too long")


def run(name: str, hardware: bool, engine: str, limit: int, share_units: bool) -> dict[str, Any]:
    """Outcome of one program, which may take `limit` seconds."""
    model, inputs = PROGRAMS[name]
    started = time.perf_counter()
    outcome: dict[str, Any] = {"program": name, "outcome": "ok", "reason": ""}
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(limit)
    try:
        with np.errstate(all="ignore"):
            if hardware:
                from tg2hdl_backend.testing.hardware import compare_with_hardware
                from tg2hdl_top import CompileOptions

                chosen = CompileOptions(share_units=share_units)
                compared = compare_with_hardware(model, *inputs, engine=engine, options=chosen)
                mismatches = list(compared.mismatches)
                outcome |= {"kernels": compared.kernels, "cycles": compared.cycles, "engine": compared.engine}
                outcome |= {"simulated": compared.simulated, "simulation": round(compared.seconds, 4)}
            else:
                result = compare_with_interpreter(model, *inputs, ulp=1)
                mismatches = result.mismatches
                outcome |= {"kernels": result.kernels, "skipped": result.skipped}
        if mismatches:
            outcome |= {"outcome": "wrong", "reason": "; ".join(mismatches)}
    except Tg2hdlError as error:
        outcome |= {"outcome": "refused", "reason": str(error)}
    except Exception as error:
        outcome |= {"outcome": "failed", "reason": f"{type(error).__name__}: {error}"}
    finally:
        signal.alarm(0)
    return outcome | {"seconds": round(time.perf_counter() - started, 2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hardware", action="store_true", help="simulate the hardware")
    parser.add_argument("--engine", default="amaranth", help="simulation engine (default: amaranth)")
    parser.add_argument("--share-units", action="store_true", help="kernels share their float units")
    parser.add_argument(
        "--select", type=_pattern, default="", help="only programs whose name matches this regular expression"
    )
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    parser.add_argument(
        "--limit", type=int, default=600, help="seconds that a program may take (default: 600)"
    )
    parser.add_argument("--resume", action="store_true", help="leave out what the JSON file has already")
    options = parser.parse_args()
    outcomes: list[dict[str, Any]] = []
    if options.resume and options.json and options.json.exists():
        outcomes = json.loads(options.json.read_text())["programs"]
    done = {o["program"] for o in outcomes}
    for name in PROGRAMS:
        if options.select.search(name) and name not in done:
            last = run(name, options.hardware, options.engine, options.limit, options.share_units)
            outcomes.append(last)
            reason = last["reason"].splitlines()[0] if last["reason"] else ""
            print(f"{last['outcome']:8s} {name:40s} {last['seconds']:6.2f} s  {reason}", flush=True)
            if options.json:
                write_record(options.json, totals(outcomes), programs=outcomes)
    found = totals(outcomes)
    print(", ".join(f"{n} {k}" for k, n in found.items()))
    return int(found["wrong"] + found["failed"] > 0)


def totals(outcomes: list[dict[str, Any]]) -> dict[str, float]:
    """Programs by outcome, kernels, seconds, and what the engines simulated."""
    found: dict[str, float] = {k: sum(o["outcome"] == k for o in outcomes) for k in OUTCOMES}
    found["kernels"] = sum(o.get("kernels", 0) for o in outcomes)
    found["seconds"] = round(sum(o["seconds"] for o in outcomes), 1)
    cycles: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for outcome in outcomes:
        if "cycles" in outcome:
            cycles[outcome["engine"]] += outcome["simulated"]
            seconds[outcome["engine"]] += outcome["simulation"]
    for engine, count in cycles.items():
        found[f"{engine} cycles"] = count
        found[f"{engine} cycles per second"] = round(count / max(seconds[engine], 1e-9))
    return found


if __name__ == "__main__":
    sys.exit(main())
