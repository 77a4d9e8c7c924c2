"""tinygrad's own operator tests (`test_ops.py`) on the device TINYTPU, with the simulator of instructions.

    python benchmarks/tpu/operator_tests.py                      # all; about half an hour
    python benchmarks/tpu/operator_tests.py --select matmul      # names that match a regular expression
    python benchmarks/tpu/operator_tests.py --tests FILE         # of a checkout of the installed release

Needs torch, which computes what the tests expect (`--torch FOLDER` for one of another environment).  The source
archives of tinygrad 0.13 and 0.14 have no tests: without `--tests`, those of 0.12 are fetched from the package index,
and run on the installed release with the few names put back that it has dropped.  A test that does not pass runs on
tinygrad's own PYTHON device too, which tells what is not the device's doing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest
from importlib import metadata
from pathlib import Path
from typing import Any

from tg2hdl.bench import json_text

HERE = Path(__file__).parent
RELEASE = "0.12.0"
OUTCOMES = ("passed", "skipped", "refused", "not the device", "too long", "failed", "wrong", "not run")


class TooLongError(BaseException):
    """A test that takes longer than its limit; no `except Exception` of tinygrad stops it."""


def fetched() -> Path:
    """Return the tests of the last release that has them."""
    folder = Path(tempfile.gettempdir()) / f"tinygrad-{RELEASE}-tests"
    found = folder / "test_ops.py"
    if not found.exists():
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
            command += ["--no-build-isolation", "-d", scratch, f"tinygrad=={RELEASE}"]
            subprocess.run(command, check=True)
            (archive,) = Path(scratch).glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                member = packed.extractfile(f"tinygrad-{RELEASE}/test/test_ops.py")
                assert member is not None
                folder.mkdir(exist_ok=True)
                found.write_bytes(member.read())
    return found


def put_back() -> None:
    """Names of tinygrad 0.12 that the tests use: a keyword of tensors that nothing reads any more, and constants."""
    import inspect

    from tinygrad import Device, Tensor, device, helpers

    for name in ("CI", "CPU_LLVM", "AMD_LLVM", "EMULATE", "IMAGE"):
        if not hasattr(helpers, name):
            setattr(helpers, name, name == "CI")
    if not hasattr(device, "is_dtype_supported"):
        device.is_dtype_supported = lambda dtype, _=None: (  # type: ignore[attr-defined]
            dtype in Device[Device.DEFAULT].renderer.supported_dtypes()
        )
    if "requires_grad" in inspect.signature(Tensor.__init__).parameters:
        return

    def without(function: Any) -> Any:
        def call(*arguments: Any, requires_grad: Any = None, **named: Any) -> Any:
            return function(*arguments, **named)

        return call

    Tensor.__init__ = without(Tensor.__init__)  # type: ignore[method-assign]
    for name in ("ones", "zeros", "full", "randn", "rand", "arange", "eye"):
        setattr(Tensor, name, staticmethod(without(getattr(Tensor, name))))


def loaded(path: Path) -> types.ModuleType:
    """Import the tests."""
    put_back()
    module = types.ModuleType("test_ops")
    module.__file__ = str(path)
    sys.modules["test_ops"] = module
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


def names(module: types.ModuleType) -> list[str]:
    """Return the tests as ``Class.test``."""
    found = []
    for label, case in vars(module).items():
        if isinstance(case, type) and issubclass(case, unittest.TestCase):
            found += [f"{label}.{name}" for name in unittest.defaultTestLoader.getTestCaseNames(case)]
    return found


def run(module: types.ModuleType, name: str, limit: int) -> dict[str, Any]:
    """Return the outcome of a test."""
    from tg2hdl_ir import Tg2hdlError

    label, _, method = name.partition(".")

    def too_long(*_: object) -> None:
        raise TooLongError

    started, outcome, reason = time.process_time(), "passed", ""
    signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        getattr(module, label)(method).debug()
    except unittest.SkipTest as skipped:
        outcome, reason = "skipped", str(skipped)
    except TooLongError:
        outcome, reason = "too long", f"more than {limit} CPU seconds"
    except BaseException as error:
        chain: BaseException | None = error
        while chain is not None and not isinstance(chain, Tg2hdlError):
            chain = chain.__cause__ or chain.__context__
        if chain is not None:
            outcome, reason = "refused", str(chain)
        else:
            text = f"{type(error).__name__}: {error}"
            differs = "Not equal to tolerance" in text or "Arrays are not equal" in text
            outcome, reason = ("wrong" if differs else "failed"), text
        if isinstance(error, KeyboardInterrupt):
            raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = round(time.process_time() - started, 1)
    return {"test": name, "outcome": outcome, "reason": reason.strip()[:400], "seconds": seconds}


def on_python(name: str, path: Path, torch: str, limit: int) -> bool:
    """Whether a test passes on tinygrad's own PYTHON device."""
    command = [sys.executable, __file__, "--device", "PYTHON", "--select", f"^{re.escape(name)}$"]
    command += [
        "--tests",
        str(path),
        "--limit",
        str(limit),
        "--no-record",
        *(["--torch", torch] if torch else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "1 passed" in done.stdout


def record(path: Path, outcomes: list[dict[str, Any]], source: str) -> None:
    """Write the outcomes and a page of those that did not pass."""
    counts = {k: sum(o["outcome"] == k for o in outcomes) for k in OUTCOMES}
    facts = {"tinygrad": metadata.version("tinygrad"), "tests": source, "counts": counts}
    path.write_text(json_text(facts | {"outcomes": outcomes}))
    lines = ["# tinygrad's operator tests on the device TINYTPU", ""]
    lines.append(
        f"`python benchmarks/tpu/operator_tests.py`: tinygrad {facts['tinygrad']}, tests of {source}, simulator of "
        "instructions. " + ", ".join(f"{n} {k}" for k, n in counts.items()) + f", of {len(outcomes)}."
    )
    lines += ["", "| test | outcome | why |", "|---|---|---|"]
    for o in outcomes:
        if o["outcome"] != "passed":
            why = " ".join(o["reason"].split())[:160].replace("|", "\\|")
            lines.append(f"| {o['test']} | {o['outcome']} | {why} |")
    passed = ", ".join(o["test"].partition(".")[2] for o in outcomes if o["outcome"] == "passed")
    path.with_suffix(".md").write_text("\n".join([*lines, "", "## Passed", "", passed, ""]))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", type=Path, help="test_ops.py of a checkout")
    parser.add_argument("--torch", default="", help="folder of packages that has torch")
    parser.add_argument(
        "--select", type=re.compile, default=re.compile(""), help="tests by regular expression"
    )
    parser.add_argument("--limit", type=int, default=300, help="CPU seconds that a test may take")
    parser.add_argument("--device", default="TINYTPU")
    parser.add_argument("--json", type=Path, default=HERE / "operator_tests.json")
    parser.add_argument("--resume", action="store_true", help="run only what has not passed yet")
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    os.environ |= {"DEV": options.device, "PARALLEL": "0", "OMP_NUM_THREADS": "1"}
    if options.torch:
        sys.path.append(options.torch)
    path = options.tests or fetched()
    source = str(options.tests) if options.tests else f"tinygrad {RELEASE}"
    module = loaded(path)
    known = {}
    if options.resume and options.json.exists():
        known = {o["test"]: o for o in json.loads(options.json.read_text())["outcomes"]}
    outcomes = []
    every = names(module)
    for name in every:
        if not options.select.search(name):
            if name in known:
                outcomes.append(known[name])
            continue
        outcome = known.get(name)
        if outcome is None or outcome["outcome"] not in ("passed", "skipped", "not the device"):
            outcome = run(module, name, options.limit)
            ours = options.device == "TINYTPU" and outcome["outcome"] in ("failed", "wrong", "refused")
            if ours and not on_python(name, path, options.torch, options.limit):
                outcome["outcome"] = "not the device"
            first = " ".join(outcome["reason"].split())[:150]
            print(f"{outcome['outcome']:14s} {name:50s} {outcome['seconds']:6.1f} s  {first}", flush=True)
        outcomes.append(outcome)
        if not options.no_record:
            rest = [o for n, o in known.items() if n not in {x["test"] for x in outcomes}]
            done = {o["test"]: o for o in outcomes + rest}
            left = {"outcome": "not run", "reason": "no run has come to it", "seconds": 0}
            record(options.json, [done.get(n, {"test": n} | left) for n in every], source)
    print(", ".join(f"{sum(o['outcome'] == k for o in outcomes)} {k}" for k in OUTCOMES))
    return int(any(o["outcome"] in ("wrong", "failed") for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
