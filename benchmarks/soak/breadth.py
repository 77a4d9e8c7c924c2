"""Run the programs that must run: golden model against tinygrad's interpreter, or hardware against golden.

    python benchmarks/soak/breadth.py                      # golden model against tinygrad's interpreter
    python benchmarks/soak/breadth.py --hardware           # simulated hardware against the golden model
    python benchmarks/soak/breadth.py --hardware --select conv --json build/breadth.json

Every program runs or is refused with a reason; the command fails when a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl_backend.conformance import PROGRAMS, compare_with_interpreter
from tg2hdl_ir.errors import Tg2hdlError


def run(name: str, hardware: bool, engine: str) -> dict[str, Any]:
    model, inputs = PROGRAMS[name]
    started = time.perf_counter()
    outcome: dict[str, Any] = {"program": name, "outcome": "ok", "reason": ""}
    try:
        with np.errstate(all="ignore"):
            if hardware:
                from tg2hdl_backend.conformance.hardware import compare_with_hardware

                compared = compare_with_hardware(model, *inputs, engine=engine)
                mismatches = list(compared.mismatches)
                outcome |= {"kernels": compared.kernels, "cycles": compared.cycles, "engine": compared.engine}
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
    return outcome | {"seconds": round(time.perf_counter() - started, 2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hardware", action="store_true", help="simulate the hardware")
    parser.add_argument("--engine", default="amaranth", help="simulation engine (default: amaranth)")
    parser.add_argument("--select", default="", help="only programs whose name matches this pattern")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    options = parser.parse_args()
    outcomes = []
    for name in PROGRAMS:
        if re.search(options.select, name):
            outcomes.append(run(name, options.hardware, options.engine))
            last = outcomes[-1]
            reason = last["reason"].splitlines()[0] if last["reason"] else ""
            print(f"{last['outcome']:8s} {name:40s} {last['seconds']:6.2f} s  {reason}", flush=True)
            if options.json:
                options.json.parent.mkdir(parents=True, exist_ok=True)
                options.json.write_text(json.dumps(outcomes, indent=1))
    counts = {k: sum(o["outcome"] == k for o in outcomes) for k in ("ok", "refused", "wrong", "failed")}
    print(", ".join(f"{n} {k}" for k, n in counts.items()))
    return int(counts["wrong"] + counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
