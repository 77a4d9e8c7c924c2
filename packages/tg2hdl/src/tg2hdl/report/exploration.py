"""The page of an exploration: the Pareto front, and for each of its points decisions, memories and command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from tg2hdl.compiled_model import CompiledModel
from tg2hdl.explain import explain_design
from tg2hdl.exploration.design_points import DesignPoints
from tg2hdl.exploration.figures import RESOURCES
from tg2hdl.exploration.goals import GOALS
from tg2hdl.exploration.points import Point
from tg2hdl.html_templates import environment
from tg2hdl.report.charts import Dot, Series, scatter
from tg2hdl.report.facts import memory_facts
from tg2hdl.report.page import Report, page_of

__all__ = ["exploration_page"]

_WIDTH = 110
"""Columns of the text of decisions."""


def exploration_page(
    found: DesignPoints, source: str = "MODEL", *, progress: Callable[[str], None] = lambda message: None
) -> Report:
    """The page of an exploration; it needs nothing else.

    Parameters
    ----------
    source : str
        Model in the command lines, e.g. ``model.py``.
    progress : callable
        Called with a message before each point of the front is planned again.
    """
    front, best = found.pareto, found.suitable[:1]
    points = []
    for number, point in enumerate(front, 1):
        progress(f"page: design {number} of {len(front)}")
        points.append(_described(point, number, point in best, source))
    sections = [
        {"name": "best", "title": "Best", "body": _best(found, source)},
        {"name": "front", "title": "Pareto front", "body": _chart(found, front)},
        {"name": "designs", "title": "Designs of the front", "body": _template("designs", points=points)},
        {"name": "all", "title": "All designs", "body": _all(found, front)},
    ]
    facts = found.to_dict() | {"name": f"{found.model} on {found.part}"}
    return Report(page_of(facts["name"], sections), facts)


def _template(name: str, **values: Any) -> Markup:
    return Markup(environment().get_template(f"{name}.html.j2").render(**values))


def _described(point: Point, number: int, is_best: bool, source: str) -> dict[str, Any]:
    """A point as the template takes it; its design is planned again, and not validated."""
    model = replace(point, options=replace(point.options, validate="off")).compile()
    return {
        "id": f"design-{number}",
        "label": _label(point),
        "is_best": is_best,
        "cells": _cells(point),
        "command": point.command(source),
        "measured": _measured(point),
        "decisions": explain_design(model.captured, model.design, variants=False).format(_WIDTH),
        "memories": _memory_table(model),
    }


def _memory_table(model: CompiledModel) -> Markup:
    memories = memory_facts(model)
    largest = max((m["bits"] for m in memories), default=1)
    ecp5 = any(m["block_rams_ecp5"] for m in memories)
    return _template("memory", memories=memories, largest=largest, ecp5=ecp5)


def _cells(point: Point) -> list[str]:
    """Figures of a row of the tables."""
    time = "" if point.microseconds is None else f"{point.microseconds:,.1f}"
    clock = "" if point.fmax is None else f"{point.fmax:.0f}"
    counts = [point.cycles, point.interval]
    needs = [point.needs.get(name) for name in RESOURCES]
    shown = ["" if n is None else f"{n:,}" for n in (*counts, *needs)]
    return [*shown[:2], time, clock, *shown[2:]]


def _best(found: DesignPoints, source: str) -> Markup:
    if not found.suitable:
        return Markup("<p>No design is known that fits and keeps the limits.</p>")
    best, goal = found.best, GOALS[found.goal]
    time = (
        "" if best.microseconds is None else f"{best.microseconds:,.1f} us at {best.fmax:.0f} MHz, estimated"
    )
    tiles = [
        ("clock cycles", f"{best.cycles:,}", "exact"),
        ("interval", f"{best.interval:,}", "cycles, exact"),
        (
            "time",
            time.partition(",")[0] if not best.microseconds else f"{best.microseconds:,.1f} us",
            "at the measured clock" if best.is_measured else "at the estimated clock",
        ),
    ]
    for name, label in RESOURCES.items():
        if name in best.needs:
            has = best.figures.has.get(name)
            tiles.append((label, f"{best.needs[name]:,}", f"of {has:,}" if has else "estimated"))
    if best.judged is not None:
        lost = f"{best.judged.loss:.2f} points below the float model, on samples that chose no scale"
        tiles.append((best.judged.measure, f"{best.judged.accuracy:.2%}", lost))
    limits = [f"{name} {value:,g}" for name, value in found.limits.items()]
    return _template(
        "best",
        tiles=tiles,
        goal=goal,
        limits=limits,
        label=_label(best),
        command=best.command(source),
        found=found,
    )


def _chart(found: DesignPoints, front: tuple[Point, ...]) -> Markup:
    """LUTs over cycles; a point of the front leads to its design."""
    names = {id(p): f"design-{n}" for n, p in enumerate(front, 1)}
    drawn = [p for p in found.points if p.needs.get("lut") is not None and p.cycles is not None]
    groups = [
        ("does not fit", [p for p in drawn if p.fits is False], 4),
        ("fits", [p for p in drawn if p not in front and p.fits], 7),
        ("Pareto front", list(front), 0),
    ]
    series = [
        Series(
            name,
            [Dot(p.cycles or 1, p.needs["lut"], _text(p), names.get(id(p), "")) for p in points],
            color,
            line=name == "Pareto front",
        )
        for name, points, color in groups
        if points
    ]
    caption = (
        f"Designs of {found.model} for {found.part}: LUTs over clock cycles. A point of the front opens its decisions, "
        "its memories and its command line."
    )
    return scatter(series, x="clock cycles from start to done (exact)", y="LUTs (estimated)", caption=caption)


def _label(point: Point) -> str:
    """Settings of a point, with its accuracy where widths of weights differ."""
    if point.judged is None:
        return point.label
    return f"{point.label}: {point.judged.measure} {point.judged.accuracy:.2%}"


def _state(point: Point) -> str:
    if point.is_measured:
        return "fits, measured by place and route"
    return "fits, estimated" if point.fits else "cells not estimated"


def _measured(point: Point) -> list[tuple[str, str, str]]:
    """Name, measured and estimated figure of a design that was placed and routed."""
    names = {n: label for n, label in RESOURCES.items() if n in point.figures.estimate}
    rows = [(label, f"{point.needs[n]:,}", f"{point.figures.estimate[n]:,}") for n, label in names.items()]
    if point.is_measured and point.fmax is not None:
        rows.append(("clock (MHz)", f"{point.fmax:.1f}", f"{point.figures.estimate['fmax']:.1f}"))
    return rows


def _text(point: Point) -> str:
    needs = ", ".join(f"{point.needs[n]:,} {label}" for n, label in RESOURCES.items() if n in point.needs)
    return f"{_label(point)}: {point.cycles:,} cycles, interval {point.interval:,}, {needs}"


def _all(found: DesignPoints, front: tuple[Point, ...]) -> Markup:
    rows = [
        {
            "label": _label(p),
            "cells": _cells(p),
            "state": p.figures.refusal or _state(p),
            "on_front": p in front,
        }
        for p in found.points
    ]
    return _template("points", rows=rows)
