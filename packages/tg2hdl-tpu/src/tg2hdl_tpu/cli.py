"""``tg2hdl tpu``: programs of the tensor processor."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from tg2hdl_ir.errors import InputError, ToolMissingError
from tg2hdl_tpu.assembler import assemble, assemble_lines
from tg2hdl_tpu.bundle import Bundle
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.disassembler import bundle_facts, disassemble
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.machine import run_bundle
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
@click.option("--limit", default=10_000_000, show_default=True, help="Cycles after which the run ends.")
@_with_json
def run_command(program: Path, config: str | None, limit: int, json_file: str | None) -> None:
    """Run a program (.tasm, or a bundle) on the simulator in software; prints outputs and cycles."""
    result = run_bundle(_bundle(program, config), limit=limit)
    outputs = {name: rows.tolist() for name, rows in result.outputs.items()}
    if json_file != "-":
        for name, rows in outputs.items():
            for row in rows:
                click.echo(f"{name}: {' '.join(map(str, row))}")
        click.echo(f"cycles {result.cycles}, instructions {result.instructions}, rows {result.rows}")
    facts = {"trap": result.trap.name.lower(), "pc": result.pc, "cycles": result.cycles, "outputs": outputs}
    _write_json(json_file, facts)
    if result.trap is not Trap.NONE:
        raise click.ClickException(f"trap {result.trap.name.lower()} at instruction {result.pc}")


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
    config: str | None, part: str, speed: int, seeds: int, no_place: bool, json_file: str | None
) -> None:
    """Synthesize, place and route a tensor core, without pins and external memory: clock and cells."""
    try:
        from tg2hdl_synth import synthesize
    except ImportError:
        raise ToolMissingError(
            "the Python package tg2hdl-synth is not installed", hint='pip install "tg2hdl-tpu[synth]"'
        ) from None
    from tg2hdl_tpu.hardware.core import TensorCore

    result = synthesize(
        TensorCore(_config(config)),
        part,
        speed,
        seeds,
        name="tensor_core",
        pack_registers=True,
        place=not no_place,
        progress=_say,
    )
    if json_file != "-":
        click.echo(result.format())
    _write_json(json_file, result.to_dict())


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
