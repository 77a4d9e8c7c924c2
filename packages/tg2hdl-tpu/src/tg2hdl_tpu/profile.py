"""Where the cycles of a program went, from the trace of the simulator in software."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir import InputError
from tg2hdl_tpu.bundle import Bundle, Region
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.disassembler import format_instruction
from tg2hdl_tpu.instruction_checks import is_illegal
from tg2hdl_tpu.isa import PRE, Instruction, Trap, decode
from tg2hdl_tpu.machine import Machine, Result

__all__ = ["UNITS", "Event", "Profile", "events", "format_profile", "profile_bundle", "profile_script"]

#: Rows of a timeline.  A row of data is shown at the cycle of its issue in all units that it passes.
UNITS = ("SXU", "MXU", "VPU", "XLU", "VMEM", "DMA load", "DMA store")

# The states of the simulator, in its order: the reason why a unit waits, or None while it works.
_ISSUE, _BEAT, _DMA = 1, 6, 8
_ROW_WAITS = {
    2: "a result in the pipeline",
    3: "a row that is being loaded",
    4: "a row that is being stored",
    5: "the write port",
    7: "the DMA channel",
    9: "a unit that takes rows in parts",
}
_EXECUTE, _HALT = 1, 5
_SXU_WAITS = {
    2: "the next instruction",
    3: "room in the row stage",
    4: "an address register",
    5: "the end of all work",
}
_MOVE, _MEMORY = 1, 2


@dataclass(frozen=True)
class Event:
    """A unit works on an instruction, or waits, for some cycles.

    Parameters
    ----------
    unit : str
        One of `UNITS`.
    start, cycles : int
        From cycle `start` on; the first cycle of a run is 0.
    pc : int
        Address of the instruction.
    wait : str
        Cause of waiting; empty while the unit works.
    """

    unit: str
    start: int
    cycles: int
    pc: int
    wait: str = ""


@dataclass(frozen=True)
class Profile:
    """One run.

    Parameters
    ----------
    name : str
    config : Config
    program : tuple of int
        Instruction words.
    lines : tuple of int
        Lines of the source, one for each instruction; empty without one.
    result : Result
        With its trace, which may be shorter than the run.
    """

    name: str
    config: Config
    program: tuple[int, ...]
    lines: tuple[int, ...]
    result: Result

    @property
    def trace(self) -> NDArray[Any]:
        """A record for each cycle."""
        assert self.result.trace is not None
        return self.result.trace

    @property
    def cycles(self) -> int:
        """Cycles that the trace covers."""
        return len(self.trace)

    def instruction(self, pc: int) -> Instruction | None:
        """Return the instruction at an address, or None when there is none."""
        if not 0 <= pc < len(self.program) or is_illegal(self.program[pc], self.config):
            return None
        return decode(self.program[pc])

    def text(self, pc: int) -> str:
        """Return the instruction at an address as TASM."""
        found = self.instruction(pc)
        return " ".join(format_instruction(found, self.config).split()) if found else "no instruction"

    def facts(self) -> dict[str, Any]:
        """Return the figures, as ``--json`` writes them."""
        return {
            "name": self.name,
            "trap": self.result.trap.name.lower(),
            "cycles": self.result.cycles,
            "profiled_cycles": self.cycles,
            "instructions": self.result.instructions,
            "rows": self.result.rows,
            "where": self._where(),
            "units": self._units(),
            "mix": self._mix(),
            "hot": self._hot(),
            "roofline": self._roofline(),
        }

    def _where(self) -> dict[str, int]:
        """Each cycle once, by the activity of the row stage."""
        found: Counter[str] = Counter()
        rows, counts = np.unique(self.trace[["row", "sxu"]], return_counts=True)
        for (row, sxu), count in zip(rows.tolist(), counts.tolist(), strict=True):
            if row == _ISSUE:
                found["rows issued"] += count
            elif row == _BEAT:
                found["reading the old destination"] += count
            elif row == _DMA:
                found["starting DMA"] += count
            elif row in _ROW_WAITS:
                found[f"waiting for {_ROW_WAITS[row]}"] += count
            elif sxu == _EXECUTE:
                found["no row: the sequencer works"] += count
            else:
                found[f"no row: the sequencer waits for {_SXU_WAITS.get(sxu, 'the start')}"] += count
        return dict(found.most_common())

    def _units(self) -> dict[str, dict[str, Any]]:
        busy: Counter[str] = Counter()
        waits: dict[str, Counter[str]] = {unit: Counter() for unit in UNITS}
        for event in events(self):
            if event.wait:
                waits[event.unit][event.wait] += event.cycles
            else:
                busy[event.unit] += event.cycles
        return {unit: {"busy": busy[unit], "waits": dict(waits[unit].most_common())} for unit in UNITS}

    def _mix(self) -> dict[str, dict[str, int]]:
        """Cycles in which a mnemonic was executed, or a row of it issued."""
        found: dict[str, Counter[str]] = {}
        for key, state, column in (("rows", "row", "row_pc"), ("executed", "sxu", "sxu_pc")):
            chosen = self.trace[column][self.trace[state] == 1]
            for pc, count in zip(*(a.tolist() for a in np.unique(chosen, return_counts=True)), strict=True):
                instruction = self.instruction(pc)
                if instruction:
                    found.setdefault(instruction.op, Counter())[key] += count
        order = sorted(found, key=lambda op: (-found[op]["executed"], op))
        return {op: {"executed": found[op]["executed"], "rows": found[op]["rows"]} for op in order}

    def _hot(self) -> list[dict[str, Any]]:
        """Each cycle once, at the instruction in the row stage, or else in the sequencer."""
        at = np.where(self.trace["row"] != 0, self.trace["row_pc"], self.trace["sxu_pc"])
        waits = np.isin(self.trace["row"], list(_ROW_WAITS)) | (
            (self.trace["row"] == 0) & (self.trace["sxu"] != _EXECUTE)
        )
        found = []
        for pc in np.unique(at).tolist():
            mine = at == pc
            found.append(
                {
                    "pc": pc,
                    "line": self.lines[pc] if 0 <= pc < len(self.lines) else None,
                    "instruction": self.text(pc),
                    "cycles": int(mine.sum()),
                    "waits": int((mine & waits).sum()),
                }
            )
        return sorted(found, key=lambda spot: (-spot["cycles"], spot["pc"]))

    def _roofline(self) -> dict[str, float]:
        """Operations per cycle (a product with its sum is two) against the units and the external memory."""
        config = self.config
        products = words = 0
        for pc, count in zip(
            *(
                a.tolist()
                for a in np.unique(self.trace["row_pc"][self.trace["row"] == _ISSUE], return_counts=True)
            ),
            strict=True,
        ):
            instruction = self.instruction(pc)
            if instruction and instruction.opcode.op:
                products += count * (PRE[instruction.pre] in ("mxu", "mxu8"))
                words += count
        operations = products * 2 * config.rows * config.columns + words * config.lanes
        moved = int((self.trace["load"] == _MOVE).sum() + (self.trace["store"] == _MOVE).sum())
        cycles = max(self.cycles, 1)
        peak = 2.0 * config.rows * config.columns * (products > 0) + config.lanes
        found = {
            "operations": float(operations),
            "operations_per_cycle": operations / cycles,
            "peak": peak,
            "of_peak": operations / cycles / peak,
            "matrix_unit": products / cycles,
            "external_bytes": float(moved * 4 * config.lanes),
        }
        if moved:
            # One row each way in a cycle; the roof is that of the busier direction.
            intensity = operations / (moved * 4 * config.lanes)
            busier = max(int((self.trace[way] == _MOVE).sum()) for way in ("load", "store"))
            found["operations_per_byte"] = intensity
            found["memory_roof"] = operations / (busier * config.memory_interval)
        return found


def _spans(column: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """First index and length of each run of equal values."""
    edges = (
        np.flatnonzero(
            np.any([column[name][1:] != column[name][:-1] for name in column.dtype.names or ()], axis=0)
        )
        + 1
    )
    starts = [0, *edges.tolist()]
    yield from zip(starts, np.diff([*starts, len(column)]).tolist(), strict=True)


def events(profile: Profile) -> list[Event]:
    """Return the work of each unit, by unit and time; idle times are left out."""
    trace = profile.trace
    found: list[Event] = []
    if not len(trace):
        return found
    for start, count in _spans(trace[["sxu", "sxu_pc"]]):
        state, pc = int(trace["sxu"][start]), int(trace["sxu_pc"][start])
        if state:
            found.append(Event("SXU", start, count, pc, _SXU_WAITS.get(state, "")))
    for start, count in _spans(trace[["row", "row_pc"]]):
        state, pc = int(trace["row"][start]), int(trace["row_pc"][start])
        instruction = profile.instruction(pc)
        if not state or instruction is None:
            continue
        found += [
            Event(unit, start, count, pc, _ROW_WAITS.get(state, "")) for unit in _passes(instruction, state)
        ]
    for unit, way in (("DMA load", "load"), ("DMA store", "store")):
        for start, count in _spans(trace[[way, f"{way}_pc"]]):
            state, pc = int(trace[way][start]), int(trace[f"{way}_pc"][start])
            if state:
                wait = "memory, or a port of the scratchpad" if state == _MEMORY else ""
                found.append(Event(unit, start, count, pc, wait))
    return sorted(found, key=lambda event: (UNITS.index(event.unit), event.start))


def _passes(instruction: Instruction, state: int) -> list[str]:
    """Units that a row of an instruction uses, the one that does the work first; only that one waits."""
    form, pre = instruction.opcode.form, PRE[instruction.pre]
    if form == "dma":
        # The channel shows the transfer; until it is free, no row is read.
        return ["VMEM"] if state in _ROW_WAITS else []
    if state == _BEAT:
        return ["VMEM"]
    units = {"weights": ["MXU"], "sums": ["MXU"], "lda": ["XLU"]}.get(form, ["VPU"])
    units = units + (["MXU"] if form == "vector" and pre in ("mxu", "mxu8") else [])
    units = units + (["XLU"] if pre == "xlu" else [])
    return units[:1] if state in _ROW_WAITS else [*units, "VMEM"]


def profile_bundle(
    bundle: Bundle, *, name: str = "program", lines: tuple[int, ...] = (), limit: int = 1_000_000
) -> Profile:
    """Run a bundle and return its profile; the run ends after `limit` cycles at the latest.

    Parameters
    ----------
    bundle : Bundle
    name : str
        Of the program, for the profile.
    lines : tuple of int
        Line of the source for each instruction; none where there is no source.
    limit : int
        In cycles.
    """
    machine = Machine(bundle.config)
    machine.load_bundle(bundle)
    return Profile(name, bundle.config, bundle.program, lines, machine.run(limit=limit, trace=limit))


@contextmanager
def recorded(limit: int) -> Iterator[list[Profile]]:
    """Profile every run of a `Machine`, up to `limit` cycles of each."""
    found: list[Profile] = []
    run = Machine.run

    def recording(
        self: Machine, *, limit: int = 10_000_000, trace: int = 0, streamed: Region | None = None
    ) -> Result:
        result = run(self, limit=limit, trace=max(trace, at_most), streamed=streamed)
        name = f"run {len(found) + 1}" + (f": {self.name}" if self.name else "")
        found.append(Profile(name, self.config, self.program, (), result))
        return result

    at_most = limit
    Machine.run = recording  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Machine.run = run  # type: ignore[method-assign]


def profile_script(path: Path, arguments: tuple[str, ...] = (), *, limit: int = 1_000_000) -> list[Profile]:
    """Run a Python script and profile each run of a `Machine` in it, up to `limit` cycles of each.

    Parameters
    ----------
    path : Path
        The script, which runs as ``__main__``.
    arguments : tuple of str
        ``sys.argv`` after the path.
    limit : int
        In cycles of each run.

    Raises
    ------
    InputError
        When the script runs no machine.
    """
    before = sys.argv
    sys.argv = [str(path), *arguments]
    try:
        with recorded(limit) as found:
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = before
    if not found:
        raise InputError(
            "the script ran no program of the tensor processor",
            where=str(path),
            hint="use tg2hdl_tpu.Machine, run_bundle, or DEV=TINYTPU in front of the command, with its engine isa",
        )
    return found


def format_profile(profile: Profile, *, top: int = 10) -> str:
    """Return a profile as text.

    Parameters
    ----------
    profile : Profile
    top : int
        Instructions listed, those that take most cycles first.
    """
    facts = profile.facts()
    total = max(facts["profiled_cycles"], 1)

    def share(count: int) -> str:
        return f"{count:9,} {100 * count / total:5.1f} %"

    ended = "" if profile.result.trap is Trap.NONE else f", ended by the trap {facts['trap']}"
    lines = [
        f"{profile.name}: {facts['cycles']:,} cycles, {facts['instructions']:,} instructions,"
        f" {facts['rows']:,} rows{ended}"
    ]
    if facts["profiled_cycles"] < facts["cycles"]:
        lines.append(f"  profiled: the first {facts['profiled_cycles']:,} cycles")
    lines += ["", "Cycles by what happens in them"]
    lines += [f"  {share(count)}  {what}" for what, count in facts["where"].items()]
    lines += ["", "Cycles in which a unit works"]
    for unit, found in facts["units"].items():
        lines.append(f"  {share(found['busy'])}  {unit}")
        lines += [f"{'':22}waits {count:,} for {what}" for what, count in found["waits"].items()]
    lines += ["", "Instructions", f"  {'executed':>9} {'rows':>9}"]
    for op, counts in facts["mix"].items():
        lines.append(f"  {counts['executed']:9,} {counts['rows']:9,}  {op}")
    lines += ["", "Hot spots: cycles, and those of them that wait"]
    for spot in facts["hot"][:top]:
        line = f"line {spot['line']}" if spot["line"] else f"at {spot['pc']}"
        lines.append(f"  {share(spot['cycles'])} {spot['waits']:9,}  {line}: {spot['instruction']}")
    roof = facts["roofline"]
    lines += [
        "",
        "Roofline",
        f"  {roof['operations_per_cycle']:.2f} operations per cycle, {100 * roof['of_peak']:.1f} % of the peak of"
        f" {roof['peak']:.0f}",
    ]
    if "memory_roof" in roof:
        lines.append(
            f"  at most {roof['memory_roof']:.2f} per cycle for external memory, with"
            f" {roof['operations_per_byte']:.2f} operations per byte"
        )
    return "\n".join([*lines, ""])
