"""A design on a board: clock and link around it, and a bitstream whose timing holds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from amaranth import Elaboratable, Module

from tg2hdl_ir import BoardDef, InputError, TargetDef, resolve
from tg2hdl_ir.content_cache import ContentCache, content_key
from tg2hdl_synth.boards.board_names import board_named
from tg2hdl_synth.boards.board_tools import check_tools, tool_environment
from tg2hdl_synth.boards.links import address_of, link_of_design
from tg2hdl_synth.boards.memory_pins import check_memory, connect_memory
from tg2hdl_synth.boards.pll import add_clock, add_domains, pll_settings
from tg2hdl_synth.boards.usage import BoardComponent, limiting_part, split_clocks, usage_by_part
from tg2hdl_synth.errors import DesignTooLargeError, SynthesisError
from tg2hdl_synth.estimate import convert
from tg2hdl_synth.families import Family, tools_of
from tg2hdl_synth.families.answers import PllSettings
from tg2hdl_synth.fits import component_fits, design_fits
from tg2hdl_synth.parts import part_named
from tg2hdl_synth.tools import tool_versions
from tg2hdl_top import Design, TopModule
from tg2hdl_top.ports import LinkSettings, PacketPort, link_class

__all__ = ["Bitstream", "BoardComponent", "baud_for", "build_bitstream", "check_board"]

_USUAL = (2_000_000, 1_000_000, 921_600, 500_000, 460_800, 230_400, 115_200)
_BAUDS = (12_000_000, 6_000_000, 4_000_000, 3_000_000, *_USUAL)
_FASTEST = 2_000_000
"""Bits per second of a serial line without a known limit."""
_NEAR = 0.9
"""Share of the wanted clock that is enough for a faster serial line: the line limits small designs."""
_TOLERANCE = 0.01
_TOO_LARGE = re.compile(
    r"no (?:more )?BELs remaining|Unable to find legal placement|Failed to expand region|too many"
)
_UTILIZATION = re.compile(r"\d+/ *\d+ +\d+%")
_OPTIONS = {
    "nextpnr_opts": "--report top.report.json --write top.pnr.json --timing-allow-fail",
    "script_after_read": "",
    "script_after_synth": "",
}
"""Overrides for the build script of Amaranth's platforms; a family adds its own."""
_SOURCE = re.compile(r"^ *attribute .src .*\n", re.MULTILINE)
"""Lines of RTLIL with the place in Python's sources, which depends on the installation and changes no result."""
_RUNS = 4
_SURELY = 1.5
"""Factor of the cells of a part above which an estimate says that place and route would fail."""
_WORTH = 1.05
"""Factor of the clock for which another run is worth its time."""


@dataclass(frozen=True)
class Bitstream:
    """A bitstream whose timing holds.

    Parameters
    ----------
    clock, fmax : float
        MHz that the PLL makes, and those that the design reaches.
    baud, divisor : int
        Of the serial line: bits per second, and clock cycles of a bit; 0 for other links.
    utilization : dict of str to (used, available)
        By the kinds of the part's cells.
    by_part : dict of str to dict of str to int
        LUTs, flip-flops, multipliers and block RAMs of each kernel and host port, and of the rest.
    limit : str
        Where the path is that limits `fmax`: ``port uart``, or ``kernel 0 (gemv) to port uart``.
    link : str
        Name of the host port that is at the pins.
    link_clocks : tuple of (float, float)
        MHz that each clock domain of the link has, and those that it reaches.
    ip : str
        IPv4 address of the design; empty for a link without one.
    """

    path: Path
    board: str
    clock: float
    fmax: float
    baud: int
    divisor: int
    utilization: dict[str, tuple[int, int]]
    by_part: dict[str, dict[str, int]] = field(default_factory=dict)
    limit: str = ""
    link: str = "uart"
    link_clocks: tuple[tuple[float, float], ...] = ()
    ip: str = ""


def baud_for(clock: float, wanted: int | None = None, fastest: int = _FASTEST) -> tuple[int, int]:
    """The wanted baud rate, or the fastest usual one, that a clock (MHz) divides into within 1 %; and cycles of a bit.

    Parameters
    ----------
    clock : float
        MHz.
    wanted : int, optional
        Bits per second.
    fastest : int
        Bits per second of the fastest usual rate.

    Raises
    ------
    InputError
        When there is none.
    """
    for baud in (wanted,) if wanted else _rates(fastest):
        divisor = round(clock * 1e6 / baud)
        if divisor >= 8 and abs(clock * 1e6 / divisor / baud - 1) < _TOLERANCE:
            return baud, divisor
    raise InputError(
        f"a clock of {clock:g} MHz makes no {f'{wanted:,} baud' if wanted else 'usual baud rate'}",
        hint="choose another rate or clock: a bit takes 8 clock cycles or more"
        if wanted
        else "ask for a faster clock",
    )


def _rates(fastest: int) -> list[int]:
    return [baud for baud in _BAUDS if baud <= fastest]


def _settings(
    family: str,
    source: float,
    wanted: float,
    baud: int | None,
    *,
    asked: bool = False,
    fastest: int = _FASTEST,
) -> PllSettings:
    """The fastest clock for a baud rate: the highest one, as links limit small designs, unless a clock is `asked`."""
    if baud:
        return pll_settings(family, source, wanted, partial(_has_baud, wanted=baud))
    for rate in [] if asked else [rate for rate in _rates(fastest) if rate >= min(fastest, _FASTEST)]:
        with suppress(InputError):
            found = pll_settings(family, source, wanted, partial(_has_baud, wanted=rate))
            if rate <= _FASTEST or found.frequency >= _NEAR * wanted:
                return found
    return pll_settings(family, source, wanted, partial(_has_baud, wanted=None))


def _has_baud(clock: float, wanted: int | None) -> bool:
    try:
        baud_for(clock, wanted)
    except InputError:
        return False
    return True


def check_board(board: str | BoardDef) -> BoardDef:
    """The board of a name, as in `board_named`, for which all tools are installed.

    Raises
    ------
    InputError
        For an unknown board, or a board of an unknown part.
    ToolMissingError
        When a wheel is not installed.
    """
    chosen = board if isinstance(board, BoardDef) else board_named(board)
    check_tools(part_named(chosen.part).family)
    return chosen


def build_bitstream(
    design: Design | BoardComponent,
    board: str | BoardDef,
    folder: Path,
    *,
    clock: float | None = None,
    baud: int | None = None,
    ip: str | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Bitstream:
    """Build a bitstream; the clock is that which the design reaches, unless it is given.

    Each run aims at the clock that the one before reached, until a clock holds and a much faster one is unlikely.

    Parameters
    ----------
    design : Design or BoardComponent
    board : str or BoardDef
    folder : path
        For the bitstream, and the files of the tools.
    clock : float, optional
        MHz; missing it is an error then.
    baud : int, optional
        Bits per second of the serial line, at most an eighth of the clock; clocks that it does not divide are left out.
    ip : str, optional
        IPv4 address of a design with the link ``udp``; 192.168.1.50 when absent.
    progress : callable, optional
        Called with a message before each slow step.

    Raises
    ------
    DesignTooLargeError
        When the part of the board does not have enough cells.
    SynthesisError
        When a tool fails or the timing does not hold.
    ToolMissingError
        When a wheel is not installed.
    InputError
        For an unknown board, a design without a link, or one with a link or a memory that the board does not have.
    """
    chosen = check_board(board)
    link = link_of_design(design, chosen, resolve(chosen.platform)())
    has_rate = link_class(link).has_rate
    if baud and not has_rate:
        raise InputError("only a serial line has a baud rate", hint="leave out the baud rate")
    address = address_of(ip, link)
    streams = isinstance(design, Design) and design.streams_weights
    if isinstance(design, Design):
        clock = _clock(design, chosen, clock)
    part = part_named(chosen.part)
    _check_fits(design, chosen, progress)
    wanted, best, missed, limit, reached = clock or chosen.first_clock, None, "", "", 0.0
    for run in range(1, _RUNS + 1):
        platform: Any = resolve(chosen.platform)()
        source = platform.default_clk_frequency / 1e6
        if has_rate:
            settings = _settings(
                part.family, source, wanted, baud, asked=clock is not None, fastest=chosen.baud
            )
        else:
            settings = pll_settings(part.family, source, wanted)
        if best is not None and settings.frequency < best.clock * _WORTH:
            clocks = (best.clock, settings.frequency) if has_rate else ()
            rates = [baud_for(c, baud, chosen.baud)[0] for c in clocks]
            if rates[:1] >= rates[1:]:
                break
        progress(f"{chosen.name} at {settings.frequency:.4g} MHz, run {run} of at most {_RUNS}")
        work = folder / "synthesis" / f"run{run}"
        result = _run(design, chosen, platform, part, settings, (link, baud, address), work)
        late = [f"{has:.1f} MHz of {needs:.1f} MHz" for needs, has in result.link_clocks if has < needs]
        if late:
            missed = f"{late[0]} in the clock domain of the link"
        elif result.fmax >= settings.frequency:
            best = result
        else:
            reached = 0.98 * result.fmax
            missed = f"{result.fmax:.1f} MHz of {settings.frequency:.1f} MHz"
            limit = result.limit
        if clock is not None or (best is not None and missed):
            break
        # The next run differs: aim a little below the clock of this one.
        wanted = result.fmax * (1 - 0.02 * run)
    if best is None:
        raise SynthesisError(
            f"the timing does not hold: {missed}",
            where=f"{design.program.name if isinstance(design, Design) else design.name} on {chosen.name}",
            notes=(f"the slowest path is in {limit}",) if limit else (),
            hint=f"compile with a memory at a slower clock, e.g. memory=tg2hdl.SdramModel(clock={reached:.0f})"
            if streams
            else "ask for a slower clock" + ("" if clock else " with clock="),
        )
    path = folder / f"{_file_name(chosen.name)}{best.path.suffix}"
    shutil.copyfile(best.path, path)
    return replace(best, path=path)


def _file_name(board: str) -> str:
    """The name of a board, or of the class of a platform."""
    return board.rpartition(":")[2]


def _clock(design: Design, board: BoardDef, wanted: float | None) -> float | None:
    """The clock at which the design must run, if any; that of the memory where it is the memory's."""
    platform: Any = resolve(board.platform)()
    clock = check_memory(design, board, platform)
    if clock is None:
        return wanted
    settings = pll_settings(part_named(board.part).family, platform.default_clk_frequency / 1e6, clock)
    for other in (wanted or clock, settings.frequency):
        if abs(other - clock) <= _TOLERANCE * clock / 10:
            continue
        what = f"clock={other:g}" if other == wanted else f"a PLL that makes {other:g} MHz"
        raise InputError(
            f"the design counts the times of a memory at {clock:g} MHz: {what} does not suit it",
            where=f"design {design.program.name}",
            hint=f"compile with memory=tg2hdl.SdramModel(clock={other:g}), or build with --clock {other:g}",
        )
    return clock


def _check_fits(design: Design | BoardComponent, board: BoardDef, progress: Callable[[str], None]) -> None:
    """Refuse a design before place and route if it surely does not fit: memories are known, cells are an estimate."""
    if isinstance(design, Design):
        fit = design_fits(design, board.part)
    else:
        fit = component_fits(convert(design.make()), board.part, design.hint)
    progress(f"{board.name}, before place and route: {'; '.join(fit.lines)}")
    cells = [fit.needs[kind] > _SURELY * fit.has[kind] for kind in ("lut", "ff") if kind in fit.needs]
    memory = not cells or fit.needs["bram"] > fit.has["bram"]
    if not fit and (memory or any(cells)):
        raise DesignTooLargeError(
            f"the design does not fit {board.name}",
            notes=("estimated before place and route:", *fit.lines),
            hint=fit.hint,
        )


def _run(
    design: Design | BoardComponent,
    board: BoardDef,
    platform: Any,
    part: TargetDef,
    settings: PllSettings,
    link: tuple[str, int | None, int],
    work: Path,
) -> Bitstream:
    tools = tools_of(part.family)
    options = tools.build_options(part, settings.frequency)
    options |= {name: f"{text} {options.get(name, '')}".strip() for name, text in _OPTIONS.items()}
    if isinstance(design, Design) and design.streams_weights:
        options["script_after_synth"] = tools.registers_in_pads
    kind, wanted, address = link
    port = link_class(kind)
    baud, divisor = baud_for(settings.frequency, wanted, board.baud) if port.has_rate else (0, 0)
    shutil.rmtree(work, ignore_errors=True)
    with tool_environment(part.family, work / "tools") as environment:
        plan = platform.prepare(
            _OnBoard(
                TopModule(design) if isinstance(design, Design) else design.make(),
                tools,
                settings,
                port,
                LinkSettings(divisor, address),
            ),
            name="top",
            **options,
        )
        reading = "read_rtlil top.il\n"
        plan.files["top.ys"] = plan.files["top.ys"].replace(
            reading, reading + tools.soft_products(plan.files["top.il"], part)
        )
        plan.extract(str(work)) if hasattr(plan, "extract") else plan.execute_local(
            str(work), run_script=False
        )
        log = work / "build.log"

        def build(folder: Path) -> None:
            with log.open("w") as file:
                status = subprocess.run(
                    ["sh", f"{plan.script}.sh"],
                    cwd=work,
                    env=environment,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                ).returncode
            if status:
                raise _failure(log, work, board, "" if isinstance(design, Design) else design.hint)
            shutil.copytree(
                work, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("tools", *plan.files)
            )

        texts = (f"{name}\n{_SOURCE.sub('', str(text))}" for name, text in sorted(plan.files.items()))
        versions = tool_versions(*tools.board_tools)
        found = ContentCache("synth").get(content_key("board 1", repr(versions), *texts), build)
        if found.cached:
            shutil.copytree(
                found.folder, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns("manifest.json")
            )
    report = json.loads((work / "top.report.json").read_text())
    others = split_clocks(report) if not port.has_rate else ()
    placed = json.loads((work / "top.pnr.json").read_text())
    return Bitstream(
        work / f"top.{tools.suffix}",
        board.name,
        settings.frequency,
        min((entry["achieved"] for entry in report["fmax"].values()), default=settings.frequency),
        baud,
        divisor,
        {kind: (u["used"], u["available"]) for kind, u in report["utilization"].items() if u["used"]},
        usage_by_part(placed, part.family, design),
        limiting_part(report, placed, design),
        kind,
        others,
        str(IPv4Address(address)) if address else "",
    )


def _failure(log: Path, work: Path, board: BoardDef, hint: str = "") -> SynthesisError | DesignTooLargeError:
    timing = work / "top.tim"
    text = log.read_text() + (timing.read_text() if timing.is_file() else "")
    lines = text.splitlines()
    errors = tuple(dict.fromkeys(line for line in lines if "ERROR" in line)) or tuple(lines[-4:])
    if any(_TOO_LARGE.search(line) for line in errors):
        used = tuple(line.split("Info:")[-1].strip() for line in lines if _UTILIZATION.search(line))
        return DesignTooLargeError(
            f"the design does not fit {board.name}",
            notes=(*errors[:2], *used[:12]),
            hint=hint or "take a larger board, compile with fewer multipliers, or quantize the model",
        )
    return SynthesisError("no bitstream could be made", notes=errors[:8], where=board.name, hint=f"see {log}")


class _OnBoard(Elaboratable):
    """A design with the clock and the link of a board."""

    def __init__(
        self, top: Any, tools: Family, settings: PllSettings, link: type[PacketPort], chosen: LinkSettings
    ) -> None:
        self._top, self._tools, self._settings = top, tools, settings
        self._link, self._chosen = link, chosen

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        add_clock(m, platform, self._tools, self._settings)
        add_domains(m, platform, self._tools, self._link.clocks)
        m.submodules.design = top = self._top
        self._link.connect_pins(m, platform, top, self._chosen)
        if isinstance(top, TopModule) and top.memory_port is not None:
            connect_memory(m, platform, top)
        return m
