"""Place and route with nextpnr without pins, so that the clock is limited by the design alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tg2hdl_ir.plugins.descriptors import TargetDef
from tg2hdl_synth.cache import content_key, run_cached
from tg2hdl_synth.errors import DesignTooLargeError, SynthesisError
from tg2hdl_synth.netlist import Netlist
from tg2hdl_synth.port_chain import chain_ports
from tg2hdl_synth.register_pairs import keep_feedback_close
from tg2hdl_synth.tools import Progress, run_tool, tool_versions

__all__ = ["PathStep", "PlaceAndRoute", "place_and_route"]

_TOO_LARGE = re.compile(r"no (?:more )?BELs remaining|Unable to find legal placement|Failed to expand region")
_TIMING_WEIGHT = 20
"""Weight of slow connections in nextpnr's placer: its default of 10 leaves some across the whole part."""
_FULL = 0.5
"""Share of the LUTs or flip-flops of an ECP5 above which nextpnr's first router may not end; the second one does, with
a few long ways round."""
_PHASES = (("Packing", "packing"), ("placed", "placing"), ("Routing", "routing"))


@dataclass(frozen=True)
class PathStep:
    """A cell on the critical path: its name in the netlist, the net behind it, and the delay up to there (ns)."""

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
    utilization : dict of str to (used, available)
        By the kinds of the part.
    critical_path : tuple of PathStep
    """

    seed: int
    fmax: float
    utilization: dict[str, tuple[int, int]]
    critical_path: tuple[PathStep, ...]
    folder: Path
    cached: bool


def place_and_route(
    netlist: Netlist, target: TargetDef, *, speed: int, seed: int, frequency: float, progress: Progress
) -> PlaceAndRoute:
    """Place and route a netlist once.

    Parameters
    ----------
    speed : int
        Speed grade (ECP5).
    frequency : float
        What the placer aims at (MHz); missing it is no error.

    Raises
    ------
    DesignTooLargeError
        When the part has not enough cells.
    SynthesisError
        When routing fails.
    ToolMissingError
        When the wheel for the family is not installed.
    """
    tool = f"nextpnr-{target.family}"
    options = dict(target.options)
    arguments = [f"--{options['device']}", "--package", options["package"]]
    text = (netlist.folder / "netlist.json").read_text()
    if target.family == "ecp5":
        arguments += ["--speed", str(speed), "--out-of-context", *router_arguments(netlist.total, target)]
        text = _changed(text, keep_feedback_close)
    arguments += ["--json", "netlist.json", "--freq", f"{frequency:g}", "--seed", str(seed)]
    arguments += ["--placer-heap-timingweight", str(_TIMING_WEIGHT)]
    arguments += ["--timing-allow-fail", "--report", "report.json"]
    if target.family == "ice40":
        arguments += ["--pcf-allow-unconstrained"]
        text = _changed(text, chain_ports)
    key = content_key("place 1", repr(tool_versions(tool)), repr(arguments), text)
    folder, cached = run_cached(key, partial(_run, tool, arguments, text, seed, progress))
    report = json.loads((folder / "report.json").read_text())
    return PlaceAndRoute(
        seed,
        min((clock["achieved"] for clock in report["fmax"].values()), default=0.0),
        {kind: (u["used"], u["available"]) for kind, u in report["utilization"].items() if u["used"]},
        _critical(report),
        folder,
        cached,
    )


def router_arguments(cells: Mapping[str, int], target: TargetDef) -> list[str]:
    """Options that choose the router by how full an ECP5 is."""
    share = max(cells["comb"] / target.lut, cells["ff"] / target.ff)
    return ["--router", "router2"] if share > _FULL else []


def _changed(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    netlist = json.loads(text)
    change(netlist)
    return json.dumps(netlist)


def _run(tool: str, arguments: list[str], netlist: str, seed: int, progress: Progress, folder: Path) -> None:
    (folder / "netlist.json").write_text(netlist)

    reported: set[str] = set()

    def report(line: str) -> None:
        for text, phase in _PHASES:
            if text in line and phase not in reported:
                reported.add(phase)
                progress(f"{tool}, seed {seed}: {phase}")

    progress(f"{tool}, seed {seed}")
    try:
        run_tool(tool, arguments, folder, log="nextpnr.log", on_line=report)
    except SynthesisError as error:
        if any(_TOO_LARGE.search(note) for note in error.notes):
            raise DesignTooLargeError(
                "the design does not fit the part",
                where=tool,
                notes=error.notes,
                hint="take a larger target, or compile with fewer multipliers",
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
