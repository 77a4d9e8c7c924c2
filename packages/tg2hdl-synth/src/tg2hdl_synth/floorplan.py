"""Puts block RAMs and multipliers of an ECP5 where a floorplan wants them, before anything else is placed.

Out of context a design has no pins, so that nothing holds its cells apart when nextpnr begins to place them; for one
that fills most of the part, ``heap`` may then search for a legal placement without end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from tg2hdl_ir import InputError
from tg2hdl_ir.content_cache import content_key
from tg2hdl_synth.cache import run_cached
from tg2hdl_synth.flat_netlist import natural, top_module
from tg2hdl_synth.tools import run_tool, tool_versions

__all__ = ["Floorplan", "anchor", "check_floorplan", "sites"]

Floorplan: TypeAlias = "Mapping[str, tuple[float, float]]"

_SITE = re.compile(r"X(\d+)/Y(\d+)/")


def check_floorplan(floorplan: Floorplan) -> None:
    """Check patterns and places.

    Raises
    ------
    InputError
        For a place that is not between 0.0 and 1.0, or a pattern that is not text.
    """
    for pattern, place in floorplan.items():
        if not isinstance(pattern, str) or not _is_place(place):
            raise InputError(
                f"floorplan has {pattern!r}: {place!r}",
                hint="give patterns of cells' names, as 'lane3.*', and places (x, y) from (0.0, 0.0) to (1.0, 1.0)",
            )


def _is_place(place: Any) -> bool:
    pair = isinstance(place, tuple) and len(place) == 2
    return pair and all(
        isinstance(v, (int, float)) and not isinstance(v, bool) and 0 <= v <= 1 for v in place
    )


def sites(device: str, package: str, counts: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the names of all sites for some kinds of cells.

    Parameters
    ----------
    device, package : str
        As nextpnr-ecp5 names them.
    counts : mapping of str to int
        Kinds of cells, with how many of each the part has.

    Raises
    ------
    SynthesisError
        When nextpnr fails.
    ToolMissingError
        When its wheel is not installed.
    """
    cells = {
        f"{kind}_{n}": {
            "type": kind,
            "parameters": {},
            "attributes": {},
            "port_directions": {},
            "connections": {},
        }
        for kind, count in counts.items()
        for n in range(count)
    }
    module = {"attributes": {"top": "1"}, "ports": {}, "cells": cells, "netnames": {}}
    text = json.dumps({"creator": "tg2hdl", "modules": {"top": module}})
    key = content_key("sites 1", repr(tool_versions("nextpnr-ecp5")), device, package, text)
    folder, _ = run_cached(key, partial(_place_all, device, package, text))
    placed = json.loads((folder / "placed.json").read_text())["modules"]["top"]["cells"].values()
    found: dict[str, list[str]] = {kind: [] for kind in counts}
    for cell in placed:
        if cell["type"] in found:
            found[cell["type"]].append(cell["attributes"]["NEXTPNR_BEL"])
    return found


def anchor(netlist: dict[str, Any], floorplan: Floorplan, places: Mapping[str, list[str]]) -> list[str]:
    """Give cells the free sites nearest to their places, in a netlist of yosys' JSON; returns patterns without a cell.

    Parameters
    ----------
    floorplan : mapping of str to (float, float)
        Places (x, y) by glob patterns of cell names, from (0, 0) to (1, 1), opposite corners of the part.  The first
        pattern that matches a cell counts.  Cells of earlier patterns choose first; cells that no pattern matches are
        left to the placer.
    places : mapping of str to list of str
        The result of `sites`; each kind has a site for each of its cells.
    """
    module = top_module(netlist)
    positions = [_position(site) for names in places.values() for site in names]
    width, height = (max(at) for at in zip(*positions, strict=True))
    free = {kind: {site: _position(site) for site in names} for kind, names in places.items()}
    left = sorted((name for name, cell in module["cells"].items() if cell["type"] in free), key=natural)
    unused = []
    for pattern, (x, y) in floorplan.items():
        mine = [name for name in left if fnmatchcase(name, pattern)]
        for name in mine:
            cell = module["cells"][name]
            mine_free = free[cell["type"]]
            site = min(mine_free, key=lambda s: (_distance(mine_free[s], x * width, y * height), s))
            del mine_free[site]
            cell.setdefault("attributes", {})["BEL"] = site
        left = [name for name in left if name not in mine]
        unused += [] if mine else [pattern]
    return unused


def _distance(position: tuple[int, int], x: float, y: float) -> float:
    return abs(position[0] - x) + abs(position[1] - y)


def _place_all(device: str, package: str, text: str, folder: Path) -> None:
    (folder / "cells.json").write_text(text)
    arguments = [f"--{device}", "--package", package, "--out-of-context", "--no-route", "--placer", "heap"]
    arguments += ["--json", "cells.json", "--write", "placed.json"]
    run_tool("nextpnr-ecp5", arguments, folder, log="nextpnr.log")


def _position(site: str) -> tuple[int, int]:
    found = _SITE.match(site)
    assert found, site
    return int(found[1]), int(found[2])
