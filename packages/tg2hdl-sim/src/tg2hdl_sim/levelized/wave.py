"""Waveforms of the levelized engine: signals of all modules, with the names of the design."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tg2hdl_sim.model import CLOCK, Elaboration

__all__ = ["MEMORY_WORDS", "Wave", "find_wave"]

MEMORY_WORDS = 64  # larger memories are not shown
PRINTABLE = [chr(code) for code in range(33, 127)]


@dataclass(frozen=True)
class Wave:
    """The contents of a waveform.

    Parameters
    ----------
    watched : tuple of (str, nir.Value)
        Values to compute, each under the name of an output of the levelized design.
    codes : tuple of str
        VCD identifier of each.
    memories : tuple of (int, int, str)
        Index, depth and the identifiers' common prefix of the memories that are shown.
    header : str
        Declarations of the VCD file.
    """

    watched: tuple[tuple[str, Any], ...]
    codes: tuple[str, ...]
    memories: tuple[tuple[int, int, str], ...]
    header: str

    def tables(self, widths: list[int], starts: list[int]) -> list[str]:
        """Return the C tables; `starts` are the places of the values among all 32-bit chunks of a sample.

        Parameters
        ----------
        widths : list of int
            Bits of each signal.
        starts : list of int
            First chunk of each signal.
        """
        rows = ", ".join(
            f"{{{_quoted(code)}, {width}, {start}}}"
            for code, width, start in zip(self.codes, widths, starts, strict=True)
        )
        stored = ", ".join(f"{{{index}, {depth}, {_quoted(code)}}}" for index, depth, code in self.memories)
        text = "\n".join(_quoted(line + "\n") for line in self.header.split("\n"))
        return [
            "typedef struct Trace { const char *code; u32 width, start; } Trace;",
            "typedef struct Shown { u32 memory, depth; const char *code; } Shown;",
            f"static const Trace traces[] = {{{rows}{', ' if rows else ''}{{0}}}};",
            f"enum {{ TRACES = {len(self.codes)} }};",
            f"static const Shown shown[] = {{{stored}{', ' if stored else ''}{{0}}}};",
            f"enum {{ SHOWN = {len(self.memories)} }};",
            f"static const char wave_header[] = {text};",
        ]


def _quoted(text: str) -> str:
    return json.dumps(text).replace("?", "\\?")  # no trigraphs


def _code(number: int) -> str:
    found = ""
    while True:
        number, digit = divmod(number, len(PRINTABLE))
        found += PRINTABLE[digit]
        if not number:
            return found


def find_wave(elaboration: Elaboration) -> Wave:
    """Return the signals that a waveform of a design shows.

    Signals of equal value share an identifier, and are computed once.
    """
    netlist = elaboration.netlist
    clock = tuple(map(int, netlist.signals[elaboration.clock]))
    clock_nets = set(clock)
    codes: dict[tuple[int, ...], str] = {clock: _code(0)}
    watched: list[tuple[str, Any]] = []
    children: dict[int, list[int]] = {}
    for index, module in enumerate(netlist.modules):
        if module.parent is not None:
            children.setdefault(module.parent, []).append(index)
    by_path: dict[tuple[str, ...], list[int]] = {}
    for index, memory in enumerate(elaboration.memories):
        if memory.info.depth <= MEMORY_WORDS and memory.info.width:
            by_path.setdefault(memory.path[:-1], []).append(index)
    shown: list[tuple[int, int, str]] = []
    lines = ["$timescale 1 ns $end"]

    def declare(index: int, name: str) -> None:
        module = netlist.modules[index]
        lines.append(f"$scope module {_clean(name)} $end")
        for signal, label in module.signal_names.items():
            value = netlist.signals.get(signal)
            if value is None or not len(value):
                continue
            nets = tuple(map(int, value))
            if nets not in codes:
                if clock_nets & set(nets):
                    continue  # the clock as a part of a word
                codes[nets] = _code(len(codes))
                watched.append((f"wave{len(watched)}", value))
            lines.append(f"$var wire {len(nets)} {codes[nets]} {_clean(label)} $end")
        for place in (tuple(module.name), tuple(module.name[1:])):
            for number in by_path.pop(place, ()):
                info, path = elaboration.memories[number].info, elaboration.memories[number].path
                prefix = f"m{number}."
                shown.append((number, info.depth, prefix))
                lines.append(f"$scope module {_clean(path[-1])} $end")
                lines.extend(
                    f"$var wire {info.width} {prefix}{row} word{row} $end" for row in range(info.depth)
                )
                lines.append("$upscope $end")
        for child in children.get(index, ()):
            declare(child, netlist.modules[child].name[-1])
        lines.append("$upscope $end")

    declare(0, netlist.modules[0].name[0])
    lines.append("$enddefinitions $end")
    assert netlist.modules[0].signal_names[elaboration.clock] == CLOCK
    found = tuple(codes[tuple(map(int, value))] for _, value in watched)
    return Wave(tuple(watched), found, tuple(shown), "\n".join(lines))


def _clean(name: str) -> str:
    return "".join("_" if char.isspace() else char for char in name) or "_"
