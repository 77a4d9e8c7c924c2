"""Place and route with nextpnr without pins, so that only the design limits the clock."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tg2hdl_ir.content_cache import content_key
from tg2hdl_synth.cache import run_cached
from tg2hdl_synth.errors import DesignTooLargeError, SynthesisError
from tg2hdl_synth.router_progress import RouterProgress
from tg2hdl_synth.tools import Progress, Tool, run_tool, tool_versions

__all__ = ["FREQUENCY", "PathStep", "PlaceAndRoute", "changed", "fastest"]

FREQUENCY = 400.0
"""Target of place and route (MHz) where none is asked for: no design reaches it, so that all of its nets matter."""

_TOO_LARGE = re.compile(r"no (?:more )?BELs remaining|Unable to find legal placement|Failed to expand region")
_PLACERS = {"heap": ["--placer-heap-timingweight", "20"], "static": ["--placer", "static"]}
"""The placers' options.  With its default timing weight of 10, ``heap`` leaves some critical nets across the whole
part."""
_PHASES = (("Packing", "packing"), ("placed", "placing"), ("Routing", "routing"))


@dataclass(frozen=True)
class PathStep:
    """A cell on the critical path: its name in the netlist, the net that it drives, and the delay up to there (ns)."""

    cell: str
    net: str
    delay: float


@dataclass(frozen=True)
class PlaceAndRoute:
    """One run of place and route.

    Parameters
    ----------
    fmax : float
        MHz.
    placer : str
        Placer of the faster result, ``heap`` or ``static``.
    utilization : dict of str to (used, available)
        By the kinds of the part.
    critical_path : tuple of PathStep
    """

    seed: int
    fmax: float
    placer: str
    utilization: dict[str, tuple[int, int]]
    critical_path: tuple[PathStep, ...]
    folder: Path
    cached: bool


def fastest(
    tool: str | Tool,
    placers: Sequence[str],
    arguments: Sequence[str],
    netlist: str,
    seed: int,
    frequency: float,
    progress: Progress,
) -> PlaceAndRoute:
    """Place and route a netlist with one seed: with each of the placers; the fastest result is kept.

    Parameters
    ----------
    tool : str or Tool
        nextpnr of a family, e.g. ``nextpnr-ecp5``.
    netlist : str
        JSON of yosys.
    frequency : float
        Target of placer and router (MHz); missing it is not an error.

    Raises
    ------
    DesignTooLargeError
        When the part does not have enough cells or wires.
    SynthesisError
        When every placer's run fails.
    ToolMissingError
        When the wheel for the family is not installed.
    """
    arguments = [*arguments, "--json", "netlist.json", "--freq", f"{frequency:g}", "--seed", str(seed)]
    runs: list[PlaceAndRoute] = []
    errors: list[SynthesisError | DesignTooLargeError] = []
    for placer in placers:
        try:
            runs.append(_place_and_route(placer, arguments, netlist, tool, seed, progress))
        except (SynthesisError, DesignTooLargeError) as error:
            progress(f"{tool}, seed {seed}, {placer}: {error.notes[0] if error.notes else error}")
            errors.append(error)
    if not runs:
        raise errors[0]
    return max(runs, key=lambda run: run.fmax)


def _place_and_route(
    placer: str, arguments: list[str], text: str, tool: str | Tool, seed: int, progress: Progress
) -> PlaceAndRoute:
    arguments = [*arguments, *_PLACERS[placer], "--timing-allow-fail", "--report", "report.json"]
    key = content_key("place 1", repr(tool_versions(tool)), repr(arguments), text)
    label = f"{tool}, seed {seed}, {placer}"
    folder, cached = run_cached(key, partial(_run, tool, arguments, text, label, progress))
    report = json.loads((folder / "report.json").read_text())
    return PlaceAndRoute(
        seed,
        min((clock["achieved"] for clock in report["fmax"].values()), default=0.0),
        placer,
        {kind: (u["used"], u["available"]) for kind, u in report["utilization"].items() if u["used"]},
        _critical(report),
        folder,
        cached,
    )


def changed(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    """Return the JSON of a netlist after a change in place.

    Parameters
    ----------
    text : str
        JSON of the netlist.
    change : callable
        Edits the decoded netlist.
    """
    netlist = json.loads(text)
    change(netlist)
    return json.dumps(netlist)


def _run(
    tool: str | Tool, arguments: list[str], netlist: str, label: str, progress: Progress, folder: Path
) -> None:
    (folder / "netlist.json").write_text(netlist)

    reported: set[str] = set()
    router = RouterProgress(str(tool))

    def report(line: str) -> None:
        router.follow(line)
        for text, phase in _PHASES:
            if text in line and phase not in reported:
                reported.add(phase)
                progress(f"{label}: {phase}")

    progress(label)
    try:
        run_tool(tool, arguments, folder, log="nextpnr.log", on_line=report)
    except SynthesisError as error:
        if any(_TOO_LARGE.search(note) for note in error.notes):
            raise DesignTooLargeError(
                "the design does not fit the part",
                where=str(tool),
                notes=error.notes,
                hint="take a larger part, or compile with fewer multipliers",
            ) from None
        raise
    (folder / "netlist.json").unlink()


def _critical(report: dict[str, Any]) -> tuple[PathStep, ...]:
    paths = [
        p for p in report["critical_paths"] if p["from"] == p["to"] and not p["to"].startswith("<async>")
    ]
    paths = paths or report["critical_paths"]
    if not paths:
        return ()
    longest = max(paths, key=lambda path: sum(step["delay"] for step in path["path"]))
    steps, delay = [], 0.0
    for step in longest["path"]:
        delay += step["delay"]
        if step["type"] == "routing" and step["delay"]:
            steps.append(PathStep(step["from"]["cell"], step.get("net", ""), delay))
    steps.append(PathStep(longest["path"][-1]["to"]["cell"], "", delay))
    return tuple(steps)
