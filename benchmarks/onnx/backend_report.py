"""JSON and Markdown of the results of the backend tests."""

from __future__ import annotations

from collections import Counter
from datetime import date
from importlib.metadata import version
from pathlib import Path

from tg2hdl.bench import json_text
from tg2hdl_backend.testing.onnx_cases import NOISE_IN_FILE, CaseResult

DOOR_NAMES = {
    "python": "`tg2hdl.compile(path)`, golden",
    "command": "`tg2hdl simulate FILE`, simulated hardware",
}
STATUSES = ("right", "wrong", "refused", "error", "time limit")


def write_report(folder: Path, name: str, command: str, found: list[CaseResult], limit: float) -> None:
    """Write ``name.json`` and ``name.md``; `command` repeats it."""
    folder.mkdir(parents=True, exist_ok=True)
    versions = {name: version(name) for name in ("onnx", "tinygrad", "numpy")}
    counts = Counter(r.status for r in found)
    data = {
        "command": command,
        "date": date.today().isoformat(),
        "versions": versions,
        "limit_seconds": limit,
        "counts": {s: counts[s] for s in STATUSES},
        "tests": [r.record() for r in found],
    }
    (folder / f"{name}.json").write_text(json_text(data))
    fixed = [r for r in found if r.fixed]
    simulated = [r for r in found if r.rtl]
    lines = [
        "# ONNX's backend node tests" + (": arithmetic in simulated hardware" if simulated else ""),
        "",
        f"`{command}` on {data['date']} with "
        + ", ".join(f"{n} {v}" for n, v in versions.items())
        + ". Each file is compiled to hardware by `tg2hdl.compile(path)`; the golden engine's results are compared "
        "with "
        "the expected ones, with the suite's tolerances. *Wrong*: compiles and gives another result. *Refused*: a "
        "`Tg2hdlError` says why. *Error*: any other exception.",
        "",
        "| tests | " + " | ".join(STATUSES) + " |",
        "|---:|" + "---:|" * len(STATUSES),
        f"| {len(found)} | " + " | ".join(str(counts[s]) for s in STATUSES) + " |",
        "",
        f"In {len(fixed)} tests inputs that mean shapes, axes or counts are fixed to the test's values, as a user "
        "would with `--fix`; `SHAPE_INPUTS` of `tg2hdl_backend.testing.onnx_cases` says which may be. All others stay "
        "inputs. Where the file itself has a rounding error larger than the suite's tolerance, that error is allowed: "
        + ", ".join(f"{name} ({error:g} where zero is exact)" for name, error in NOISE_IN_FILE.items())
        + ".",
        "",
    ]
    if simulated:
        bits = sum(r.rtl.startswith("bits") for r in simulated)
        lines += [
            f"{bits} of {len(simulated)} arithmetic tests in simulated hardware: the golden engine's bits.",
            "",
        ]
    lines += ["## Not right", "", "| test | operator | opset | status | reason |", "|---|---|---:|---|---|"]
    lines += [
        f"| {r.name} | {r.operator} | {r.opset} | {r.status} | {_cell(r.reason)} |"
        for r in found
        if r.status != "right"
    ]
    lines += ["", "## Fixed inputs", "", "| operator | tests | inputs |", "|---|---:|---|"]
    for operator in sorted({r.operator for r in fixed}):
        of = [r for r in fixed if r.operator == operator]
        names = ", ".join(sorted({n for r in of for n in r.fixed}))
        lines.append(f"| {operator} | {len(of)} | {names} |")
    if simulated:
        lines += ["", "## Not simulated", "", "| test | reason |", "|---|---|"]
        lines += [f"| {r.name} | {_cell(r.rtl)} |" for r in simulated if not r.rtl.startswith("bits")]
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n")


def write_door_report(folder: Path, command: str, found: dict[str, list[CaseResult]]) -> None:
    """Write ``quantizer_tests.json`` and ``.md``: the same tests by each door, the results of each in order of name."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = ("onnx", "tinygrad", "numpy")
    versions = {name: version(name) for name in packages}
    rows = {door: [r.record() for r in results] for door, results in found.items()}
    today = date.today().isoformat()
    data = {"command": command, "date": today, "versions": versions, "doors": rows}
    (folder / "quantizer_tests.json").write_text(json_text(data))
    counts = [
        f"| {DOOR_NAMES[door]} | {len(results)} | "
        + " | ".join(str(sum(r.status == s for r in results)) for s in STATUSES)
        + " |"
        for door, results in found.items()
    ]
    lines = [
        "# ONNX's node tests with quantizers, by the doors that users take",
        "",
        f"`{command}` on {today} with " + ", ".join(f"{n} {v}" for n, v in versions.items()) + ".",
        "",
        "| door | tests | " + " | ".join(STATUSES) + " |",
        "|---|---:|" + "---:|" * len(STATUSES),
        *counts,
        "",
        "In these files scales and zero points are inputs, so that the quantizers are computed in float, as the "
        "standard defines them.",
        "",
        "## Not right",
        "",
        "| test | door | status | reason |",
        "|---|---|---|---|",
    ]
    for door, results in found.items():
        lines += [
            f"| {r.name} | {door} | {r.status} | {_cell(r.reason)} |" for r in results if r.status != "right"
        ]
    (folder / "quantizer_tests.md").write_text("\n".join(lines) + "\n")


def _cell(text: str) -> str:
    text = " ".join(text.replace("|", "/").split())
    return text if len(text) <= 160 else text[:157] + "..."
