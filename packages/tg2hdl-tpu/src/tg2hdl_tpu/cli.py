"""``tg2hdl tpu``: programs of the tensor processor."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tg2hdl_ir.errors import InputError, ToolMissingError
from tg2hdl_tpu.assembler import assemble, assemble_lines
from tg2hdl_tpu.bundle import Bundle
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.disassembler import bundle_facts, disassemble
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.machine import Result, run_bundle
from tg2hdl_tpu.page import isa_facts, isa_page

__all__ = ["tpu"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _OutputFile(click.Path):
    """A file to write, or - for standard output; that it can be written is checked before the work."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        target = Path(os.fsdecode(path))
        if str(path) != "-" and not os.access(
            target if target.exists() else target.resolve().parent, os.W_OK
        ):
            raise InputError(f"cannot write {target}", hint="give a file in a folder that exists")
        return path


def _say(message: str) -> None:
    """Progress, for people only."""
    if sys.stderr.isatty():
        click.echo(message, err=True)


_OUT = _OutputFile(dir_okay=False, path_type=Path)


@click.group()
def tpu() -> None:
    """Programs of the tensor processor: assemble, run, inspect."""


def _config(name: str | None) -> Config:
    if name == "ecp5":
        return Config.ecp5()
    if name and not Path(name).is_file():
        raise InputError(f"no file is named {name}", where="--config", hint="name a JSON file, or ecp5")
    return Config.from_json(Path(name).read_text()) if name else Config()


def _bundle(path: Path, config: str | None) -> Bundle:
    if path.suffix == ".tasm":
        return assemble(path.read_text(), _config(config), name=str(path))
    return Bundle.load(path)


_with_config = click.option(
    "--config",
    metavar="FILE|ecp5",
    help="JSON file with parameters of the machine; ecp5 is one for these FPGAs.",
)


_with_json = click.option(
    "--json",
    "json_file",
    metavar="FILE",
    is_flag=False,
    flag_value="-",
    type=_OutputFile(allow_dash=True, dir_okay=False),
    help="Write the figures as JSON, - for standard output; then nothing else is printed there.",
)


def _write_json(json_file: str | None, facts: Any) -> None:
    """Write figures where ``--json`` says, if it does."""
    if json_file:
        with click.open_file(json_file, "w") as file:
            file.write(json.dumps(facts, indent=2) + "\n")


@tpu.command("run")
@click.argument("program", type=_FILE)
@_with_config
@click.option(
    "--limit", type=int, help="Cycles after which the run ends.  [default: 10000000; on a board 16777215]"
)
@click.option("--device", metavar="PORT|simulate:DIR", help="Run it on a board, or on a simulated one.")
@click.option("--folder", metavar="DIR", help="Of the board's processor: what `tg2hdl tpu build -o` wrote.")
@_with_json
def run_command(
    program: Path,
    config: str | None,
    limit: int | None,
    device: str | None,
    folder: str | None,
    json_file: str | None,
) -> None:
    """Run a program (.tasm, or a bundle) on the simulator in software, or a board; prints outputs and cycles."""
    if device is None:
        result = run_bundle(_bundle(program, config), limit=limit or 10_000_000)
    else:
        result = _run_on(device, folder, program, config, limit)
    outputs = {name: rows.tolist() for name, rows in result.outputs.items()}
    if json_file != "-":
        for name, rows in outputs.items():
            for row in rows:
                click.echo(f"{name}: {' '.join(map(str, row))}")
        counts = f", instructions {result.instructions}, rows {result.rows}" if device is None else ""
        click.echo(f"cycles {result.cycles}{counts}")
    facts = {"trap": result.trap.name.lower(), "pc": result.pc, "cycles": result.cycles, "outputs": outputs}
    _write_json(json_file, facts)
    if result.trap is not Trap.NONE:
        raise click.ClickException(f"trap {result.trap.name.lower()} at instruction {result.pc}")


def _run_on(device: str, folder: str | None, program: Path, config: str | None, limit: int | None) -> Result:
    """Run a program on the processor behind a link, for whose machine it is assembled."""
    try:
        from tg2hdl_tpu.board.driver import connect_processor
    except ImportError as error:
        raise _no_boards(error) from None
    with connect_processor(device, folder) as processor:
        if program.suffix == ".tasm" and config is None:
            bundle = assemble(program.read_text(), processor.config, name=str(program))
        else:
            bundle = _bundle(program, config)
        return processor.run_bundle(bundle, **({} if limit is None else {"limit": limit}))


def _no_boards(error: ImportError) -> ToolMissingError:
    return ToolMissingError(
        f"the Python package {str(error.name).split('.')[0]} is not installed",
        hint='pip install "tg2hdl-tpu[board]"',
    )


@tpu.command("assemble")
@click.argument("program", type=_FILE)
@_with_config
@click.option(
    "-o", "--output", type=_OUT, required=True, help="Bundle; binary if it ends in .tpu, else text."
)
@_with_json
def assemble_command(program: Path, config: str | None, output: Path, json_file: str | None) -> None:
    """Assemble a program into a bundle."""
    bundle = assemble(program.read_text(), _config(config), name=str(program))
    bundle.save(output)
    _write_json(json_file, {"bundle": str(output), **bundle_facts(bundle)})


@tpu.command("disassemble")
@click.argument("bundle", type=_FILE)
@click.option("-o", "--output", type=_OUT, help="TASM; by default standard output.")
@_with_json
def disassemble_command(bundle: Path, output: Path | None, json_file: str | None) -> None:
    """Turn a bundle into TASM."""
    found = Bundle.load(bundle)
    text = disassemble(found, name=str(bundle))
    if output:
        output.write_text(text)
    elif json_file != "-":
        click.echo(text, nl=False)
    _write_json(json_file, bundle_facts(found))


@tpu.command("profile", context_settings={"ignore_unknown_options": True})
@click.argument("program", type=_FILE)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@_with_config
@click.option("--limit", default=1_000_000, show_default=True, help="Cycles of a run that are profiled.")
@click.option("--top", default=10, show_default=True, help="Hot spots to print.")
@_with_json
@click.option("--trace", type=_OUT, help="Write a trace for Perfetto and chrome://tracing.")
@click.option("--html", type=_OUT, help="Write the timeline as one HTML page.")
def profile_command(
    program: Path,
    arguments: tuple[str, ...],
    config: str | None,
    limit: int,
    top: int,
    json_file: str | None,
    trace: Path | None,
    html: Path | None,
) -> None:
    """Show where the cycles of a program went (.tasm, a bundle, or a Python script that runs some)."""
    from tg2hdl_tpu.profile import format_profile, profile_bundle, profile_script
    from tg2hdl_tpu.timeline import chrome_trace, timeline_page

    if program.suffix == ".py":
        found = profile_script(program, arguments, limit=limit)
    else:
        lines: tuple[int, ...] = ()
        if program.suffix == ".tasm":
            bundle, lines = assemble_lines(program.read_text(), _config(config), name=str(program))
        else:
            bundle = Bundle.load(program)
        found = [profile_bundle(bundle, name=program.name, lines=lines, limit=limit)]
    if json_file != "-":
        click.echo("\n".join(format_profile(run, top=top) for run in found), nl=False)
    _write_json(json_file, [run.facts() for run in found])
    if trace:
        trace.write_text(json.dumps(chrome_trace(found)) + "\n")
    if html:
        html.write_text(timeline_page(found, title=program.name))


@tpu.command("bench")
@_with_config
@click.option("--only", multiple=True, metavar="KERNEL", help="Only this kernel; may be repeated.")
@click.option(
    "--engine",
    default="isa",
    show_default=True,
    help="isa: the simulator in software; else the netlist: auto, levelized, cxxrtl, verilator, amaranth.",
)
@_with_json
@click.option("-o", "--output", type=_OUT, help="Write the table to a file too.")
def bench_command(
    config: str | None, only: tuple[str, ...], engine: str, json_file: str | None, output: Path | None
) -> None:
    """Measure 11 kernels, each checked against numpy: elements per cycle, and the geometric means."""
    from tg2hdl_tpu.bench import bench, bench_facts, bench_table

    machine = _config(config)
    found = bench(machine, only=only, engine=engine, progress=_say)
    table = bench_table(found, machine, engine)
    if json_file != "-":
        click.echo(table, nl=False)
    if output:
        output.write_text(table)
    _write_json(json_file, bench_facts(found, machine, engine))


@tpu.command("build")
@_with_config
@click.option("--array", metavar="RxC", help="Size of the matrix unit, such as 2x2.")
@click.option("--lanes", type=int, help="Words of a row.")
@click.option("--vmem-rows", type=int, help="Rows of the scratchpad.")
@click.option("--imem-depth", type=int, help="Instructions.")
@click.option("--xmem-rows", type=int, help="Rows of the external memory; block RAM on a board.")
@click.option("-o", "--output", metavar="DIR", type=click.Path(path_type=Path), help="Folder of a device.")
@click.option("--board", help="Make a bitstream; `tg2hdl plugins list --kind board` shows the boards.")
@click.option(
    "--clock",
    type=float,
    help="Clock of the board in MHz, or the one that --part is to reach.  [default: the fastest]",
)
@click.option("--baud", type=click.IntRange(9600), help="Serial line.  [default: at most 2000000]")
@click.option(
    "--part", default="ecp5-45k", show_default=True, help="As `tg2hdl plugins list --kind target` has it."
)
@click.option("--speed", default=6, show_default=True, help="Speed grade of an ECP5: 6, 7 or 8.")
@click.option(
    "--seeds", default=1, show_default=True, help="Runs of place and route; the clock is the median."
)
@click.option("--no-place", is_flag=True, help="Stop at the netlist: cells and no clock.")
@_with_json
def build_command(
    config: str | None,
    array: str | None,
    output: Path | None,
    board: str | None,
    clock: float | None,
    baud: int | None,
    part: str,
    speed: int,
    seeds: int,
    no_place: bool,
    json_file: str | None,
    **sizes: int | None,
) -> None:
    """Make a bitstream of the processor, the folder of a simulated one, or figures.

    With --board and -o: a bitstream with a serial line, and what its driver needs. With -o alone: the same for the
    simulation, as `tg2hdl tpu run --device simulate:DIR` takes it. Else: a tensor core without pins and external
    memory is synthesized, placed and routed for --part.
    """
    machine = _sized(_config(config), array, sizes, board=bool(board) and config is None)
    if not board:
        _refuse_given("a board: add --board and -o", *(("clock", "baud") if output else ("baud",)))
    if no_place:
        _refuse_given("place and route: leave --no-place out", "clock")
    if output or board:
        _refuse_given("figures alone: leave -o and --board out", "part", "speed", "seeds", "no_place")
        _build_folder(machine, output, board, clock, baud, json_file)
        return
    try:
        from tg2hdl_synth import part_named, synthesize
    except ImportError:
        raise ToolMissingError(
            "the Python package tg2hdl-synth is not installed", hint='pip install "tg2hdl-tpu[synth]"'
        ) from None
    from tg2hdl_tpu.hardware.core import TensorCore
    from tg2hdl_tpu.hardware.floorplan import core_floorplan

    aim: dict[str, Any] = {} if clock is None else {"frequency": clock}
    result = synthesize(
        TensorCore(machine),
        part,
        speed,
        seeds,
        name="tensor_core",
        pack_registers="wide",
        place=not no_place,
        **aim,
        floorplan=core_floorplan(machine) if part_named(part).family == "ecp5" else None,
        progress=_say,
    )
    if json_file != "-":
        click.echo(result.format())
    _write_json(json_file, result.to_dict())


def _refuse_given(where: str, *names: str) -> None:
    """Refuse options of the command that would do nothing; they are for something else.

    Raises
    ------
    InputError
        When one of them was given.
    """
    source = click.get_current_context().get_parameter_source
    for name in names:
        if source(name) is click.core.ParameterSource.COMMANDLINE:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} has no effect here", where=option, hint=f"it is for {where}")


def _sized(machine: Config, array: str | None, sizes: dict[str, int | None], *, board: bool) -> Config:
    """A machine with the sizes that the options name; one for a board has registers and memories that boards have."""
    changes = {name: value for name, value in sizes.items() if value is not None}
    if array is not None:
        found = re.fullmatch(r"(\d+)x(\d+)", array)
        if not found:
            raise InputError(
                f"an array of {array}", where="--array", hint="write rows x columns, such as 4x4"
            )
        changes |= {"rows": int(found[1]), "columns": int(found[2])}
    if board:
        return Config.ecp5(**{"lanes": 4, "vmem_rows": 1024, "xmem_rows": 1024} | changes)
    return replace(machine, **changes)  # type: ignore[arg-type]


def _build_folder(
    machine: Config,
    output: Path | None,
    board: str | None,
    clock: float | None,
    baud: int | None,
    json_file: str | None,
) -> None:
    if output is None:
        raise InputError("where should the bitstream go?", hint="add -o DIR")
    try:
        from tg2hdl_tpu.board.folder import build_folder

        if board:
            from tg2hdl_synth.boards.bitstream import check_board

            check_board(board)
    except ImportError as error:
        raise _no_boards(error) from None
    facts = build_folder(machine, output, board=board, clock=clock, baud=baud, progress=_say)
    if json_file != "-":
        if board:
            click.echo(
                f"{board}: clock {facts['clock_mhz']:.1f} MHz, reaches {facts['fmax_mhz']:.1f} MHz "
                f"(limited by {facts['fmax_limit'] or 'the clock'}), serial line {facts['baud']:,} baud"
            )
            for unit, cells in facts["by_part"].items():
                click.echo(f"  {unit}: {', '.join(f'{n:,} {kind}' for kind, n in cells.items())}")
            used = (f"{kind} {n:,} of {count:,}" for kind, (n, count) in facts["utilization"].items())
            click.echo("; ".join(used))
        device = f"/dev/ttyUSB0 --folder {output}" if board else f"simulate:{output}"
        first = f"tg2hdl program {output}, then " if board else ""
        click.echo(f"next: {first}tg2hdl tpu run PROGRAM --device {device}")
    _write_json(json_file, {"folder": str(output), **facts})


@tpu.command("isa")
@_with_config
@click.option("--c-header", is_flag=True, help="Print the parameters and codes as a C header instead.")
@_with_json
def isa_command(config: str | None, c_header: bool, json_file: str | None) -> None:
    """Print the page of instructions: encoding, cycles, meaning."""
    machine = _config(config)
    if json_file != "-":
        if c_header:
            from tg2hdl_tpu.csource import generated_header

            click.echo(generated_header(machine), nl=False)
        else:
            click.echo(isa_page(machine), nl=False)
    _write_json(json_file, isa_facts(machine))
