"""The first cycles of each kernel in the waveform of a run."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

from tg2hdl.html_templates import environment
from tg2hdl_lower.plan.operations import UnitOp

if TYPE_CHECKING:
    import numpy as np

    from tg2hdl.compiled_model import CompiledModel

__all__ = ["SignalTrace", "draw_wave", "recorded_waves"]

CYCLES = 48
"""Cycles of a kernel that are shown."""

MOST_CYCLES, MOST_NODES = 6_000, 1_500
"""Larger designs have no waveform in a report: recording it takes longer than everything else."""

_UNIT_NODES = 400
"""Nodes to which the logic of a pipelined unit is counted."""

_SIGNAL = re.compile(r"(busy|step|i\d+|(read|write)__\d+__\d+__(en|addr|data)|acc\d+|v\d+_(?!s\d)[a-z]\w*)$")
"""Signals of a kernel that are shown, besides those of lanes."""

_CELL, _ROW, _LABEL = 18, 22, 128


class SignalTrace(NamedTuple):
    """A signal of a kernel: its name, bits, and value in each cycle from the kernel's first step."""

    name: str
    bits: int
    values: tuple[str, ...]


def recorded_waves(accelerator: CompiledModel, inputs: Sequence[np.ndarray]) -> dict[int, list[SignalTrace]]:
    """Signals of each kernel call in a run with these inputs; none for a design that is too large.

    Parameters
    ----------
    accelerator : CompiledModel
    inputs : sequence of ndarray
        Of one run.
    """
    design = accelerator.design
    nodes = sum(len(plan.nodes) + _UNIT_NODES * len(plan.all(UnitOp)) for plan in design.core_plans)
    if nodes > MOST_NODES or accelerator.predicted_cycles > MOST_CYCLES or design.streams_weights:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.vcd")
        with accelerator.session("amaranth", vcd=path) as session:
            session.run(*inputs)
        with path.open() as file:
            names, sampled = _sampled(file)
    found: dict[int, list[SignalTrace]] = {}
    runs: dict[str, int] = {}
    for number, core in enumerate(design.cores or range(len(design.kernels))):
        scope = f"kernel{core}"
        turn = runs[scope] = runs.get(scope, -1) + 1
        starts = [c for c, value in enumerate(sampled.get((scope, "start"), ())) if value == "1"]
        if turn < len(starts):
            window = slice(starts[turn], starts[turn] + CYCLES)
            found[number] = [
                SignalTrace(name, bits, tuple(sampled[where, name][window]))
                for (where, name), bits in names.items()
                if where == scope and _SIGNAL.match(name) and not name.endswith("_lane")
            ]
            found[number].sort(key=lambda trace: _order(trace.name))
    return found


def draw_wave(traces: Iterable[SignalTrace]) -> Markup:
    """SVG of the signals: bits as levels, words as their values."""
    rows = [
        {"name": trace.name.replace("__", " "), "parts": list(_parts(trace)), "y": 8 + number * _ROW}
        for number, trace in enumerate(traces)
    ]
    size = _LABEL + CYCLES * _CELL + 8, 30 + len(rows) * _ROW
    ticks = [(_LABEL + n * _CELL, n) for n in range(0, CYCLES, 8)]
    return Markup(environment().get_template("wave.html.j2").render(rows=rows, size=size, ticks=ticks))


def _parts(trace: SignalTrace) -> Iterator[Markup]:
    """SVG of one signal, relative to its row."""
    start = 0
    for cycle in range(1, len(trace.values) + 1):
        if cycle < len(trace.values) and trace.values[cycle] == trace.values[start]:
            continue
        x, width, value = _LABEL + start * _CELL, (cycle - start) * _CELL, trace.values[start]
        if trace.bits == 1:
            y = 2 if value == "1" else 14
            yield Markup(f'<path class="level" d="M{x} {y}h{width}M{x + width} 2v12"/>')
        else:
            text = str(escape(value)) if len(value) * 6.4 < width - 3 else ""
            title = f"<title>{escape(trace.name)} = {escape(value)}, cycle {start}</title>"
            yield Markup(
                f'<g>{title}<rect x="{x}" y="1" width="{width - 1}" height="15" rx="3"/>'
                f'<text x="{x + 4}" y="13">{text}</text></g>'
            )
        start = cycle


def _order(name: str) -> tuple[int, str, int]:
    """Control first, then counters, reads, values and writes."""
    kinds = ("busy", "step", "i", "read", "v", "acc", "write")
    found = next((n for n, kind in enumerate(kinds) if name.startswith(kind)), len(kinds))
    digits = re.search(r"\d+", name)
    return found, "" if digits else name, int(digits[0]) if digits else 0


def _sampled(lines: Iterable[str]) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], list[str]]]:
    """Bits and values at each rising clock edge of the signals of kernels, by scope and name, in a VCD file."""
    scopes: list[str] = []
    bits: dict[tuple[str, str], int] = {}
    codes: dict[tuple[str, str], str] = {}
    clock = ""
    stream = iter(lines)
    for line in stream:
        words = line.split()
        if words[:1] == ["$scope"]:
            scopes.append(words[2])
        elif words[:1] == ["$upscope"]:
            scopes.pop()
        elif words[:1] == ["$var"]:
            name = words[4]
            clock = words[3] if name == "clk" and not clock else clock
            if re.fullmatch(r"kernel\d+", scopes[-1]):
                bits.setdefault((scopes[-1], name), int(words[2]))
                codes.setdefault((scopes[-1], name), words[3])
        elif words[:1] == ["$enddefinitions"]:
            break
    values: dict[str, str] = {}
    sampled: dict[tuple[str, str], list[str]] = {key: [] for key in codes}
    for line in stream:
        if line[0] in "01xz":
            code, value = line[1:].rstrip(), line[0]
        elif line[0] == "b":
            binary, code = line[1:].split()
            value = str(int(binary, 2)) if set(binary) <= {"0", "1"} else binary
        else:
            continue
        if code == clock and value == "1":
            for key, own in codes.items():
                sampled[key].append(values.get(own, "0"))
        values[code] = value
    return bits, sampled
