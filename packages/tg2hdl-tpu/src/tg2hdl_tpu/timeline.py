"""Profiles as a trace for Perfetto and Chrome, and as one HTML page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tg2hdl_ir import InputError
from tg2hdl_tpu.profile import UNITS, Profile, events

__all__ = ["chrome_trace", "timeline_page"]

#: Events of one trace: some 30 MB.
MOST_EVENTS = 200_000


def chrome_trace(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Return a trace in the format of Chrome, with a microsecond for each cycle; runs follow one another.

    Raises
    ------
    InputError
        When a browser would not show so many events.
    """
    found: list[dict[str, Any]] = []
    start, total, programs, runs = 0, 0, [], []
    for pid, profile in enumerate(profiles, 1):
        found.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": profile.name}})
        for tid, unit in enumerate(UNITS):
            found.append({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": unit}})
            found.append(
                {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}
            )
        texts = [profile.text(pc) for pc in range(len(profile.program))]
        recorded = events(profile)
        total += len(recorded)
        if total > MOST_EVENTS:
            raise InputError(
                f"a timeline of more than {MOST_EVENTS:,} events",
                where=profile.name,
                hint="profile fewer cycles of each run with --limit, or a smaller input",
            )
        for event in recorded:
            known = 0 <= event.pc < len(texts)
            text = texts[event.pc] if known else "no instruction"
            arguments: dict[str, Any] = {"pc": event.pc, "instruction": text}
            if known and profile.lines:
                arguments["line"] = profile.lines[event.pc]
            if event.wait:
                arguments["waits for"] = event.wait
            found.append(
                {
                    "ph": "X",
                    "pid": pid,
                    "tid": UNITS.index(event.unit),
                    "ts": start + event.start,
                    "dur": event.cycles,
                    "name": "wait" if event.wait else text.split(" ")[0],
                    "args": arguments,
                }
            )
        hot = {spot["pc"]: spot["cycles"] for spot in profile.facts()["hot"]}
        programs.append(
            [[text, hot.get(pc, 0), *profile.lines[pc : pc + 1]] for pc, text in enumerate(texts)]
        )
        runs.append(
            {
                "name": profile.name,
                "start": start,
                "cycles": profile.cycles,
                "where": profile.facts()["where"],
            }
        )
        start += profile.cycles
    return {"traceEvents": found, "displayTimeUnit": "ns", "otherData": {"runs": runs, "programs": programs}}


def timeline_page(profiles: Sequence[Profile], *, title: str) -> str:
    """Return one HTML page that needs nothing else.

    Parameters
    ----------
    profiles : sequence of Profile
        Runs, each a process of the trace.
    title : str
        Of the page.
    """
    template = (Path(__file__).parent / "timeline.html").read_text()
    # Text of a program must not end the script.
    trace = json.dumps(chrome_trace(profiles), separators=(",", ":")).replace("<", "\\u003c")
    name = title.replace("&", "&amp;").replace("<", "&lt;")
    return template.replace("@TITLE@", name).replace("@TRACE@", trace)
