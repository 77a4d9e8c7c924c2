"""``tg2hdl tpu``: programs of the tensor processor."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tg2hdl_ir.files import write_file
from tg2hdl_tpu.assembler import assemble, assemble_lines
from tg2hdl_tpu.bundle import Bundle
from tg2hdl_tpu.cli_build import build_command
from tg2hdl_tpu.cli_common import FILE, OUT, no_boards, read_config, say, with_config, with_json, write_json
from tg2hdl_tpu.disassembler import bundle_facts, disassemble
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.machine import Result, run_bundle
from tg2hdl_tpu.page import isa_facts, isa_page

__all__ = ["tpu"]


@click.group()
def tpu() -> None:
    """Programs of the tensor processor: assemble, run, inspect."""


def _bundle(path: Path, config: str | None) -> Bundle:
    if path.suffix == ".tasm":
        return assemble(path.read_text(), read_config(config), name=str(path))
    return Bundle.load(path)


@tpu.command("run")
@click.argument("program", type=FILE)
@with_config
@click.option(
    "--limit", type=int, help="Cycles after which the run ends.  [default: 10000000; on a board 16777215]"
)
@click.option("--device", metavar="PORT|simulate:DIR", help="Run it on a board, or on a simulated one.")
@click.option("--folder", metavar="DIR", help="Of the board's processor, as `tg2hdl tpu build -o` wrote it.")
@with_json
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
    write_json(json_file, facts)
    if result.trap is not Trap.NONE:
        raise click.ClickException(f"trap {result.trap.name.lower()} at instruction {result.pc}")


def _run_on(device: str, folder: str | None, program: Path, config: str | None, limit: int | None) -> Result:
    """Run a program on the processor behind a link, for whose machine it is assembled."""
    try:
        from tg2hdl_tpu.board.driver import connect_processor
    except ImportError as error:
        raise no_boards(error) from None
    with connect_processor(device, folder) as processor:
        if program.suffix == ".tasm" and config is None:
            bundle = assemble(program.read_text(), processor.config, name=str(program))
        else:
            bundle = _bundle(program, config)
        return processor.run_bundle(bundle, **({} if limit is None else {"limit": limit}))


@tpu.command("assemble")
@click.argument("program", type=FILE)
@with_config
@click.option("-o", "--output", type=OUT, required=True, help="Bundle; binary if it ends in .tpu, else text.")
@with_json
def assemble_command(program: Path, config: str | None, output: Path, json_file: str | None) -> None:
    """Assemble a program into a bundle."""
    bundle = assemble(program.read_text(), read_config(config), name=str(program))
    bundle.save(output)
    write_json(json_file, {"bundle": str(output), **bundle_facts(bundle)})


@tpu.command("disassemble")
@click.argument("bundle", type=FILE)
@click.option("-o", "--output", type=OUT, help="TASM; by default standard output.")
@with_json
def disassemble_command(bundle: Path, output: Path | None, json_file: str | None) -> None:
    """Turn a bundle into TASM."""
    found = Bundle.load(bundle)
    text = disassemble(found, name=str(bundle))
    if output:
        write_file(output, text)
    elif json_file != "-":
        click.echo(text, nl=False)
    write_json(json_file, bundle_facts(found))


@tpu.command("profile", context_settings={"ignore_unknown_options": True})
@click.argument("program", type=FILE)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@with_config
@click.option("--limit", default=1_000_000, show_default=True, help="Cycles of a run that are profiled.")
@click.option("--top", default=10, show_default=True, help="Hot spots to print.")
@with_json
@click.option("--trace", type=OUT, help="Write a trace for Perfetto and chrome://tracing.")
@click.option("--html", type=OUT, help="Write the timeline as one HTML page.")
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
            bundle, lines = assemble_lines(program.read_text(), read_config(config), name=str(program))
        else:
            bundle = Bundle.load(program)
        found = [profile_bundle(bundle, name=program.name, lines=lines, limit=limit)]
    if json_file != "-":
        click.echo("\n".join(format_profile(run, top=top) for run in found), nl=False)
    write_json(json_file, [run.facts() for run in found])
    if trace:
        write_file(trace, json.dumps(chrome_trace(found)) + "\n")
    if html:
        write_file(html, timeline_page(found, title=program.name))


@tpu.command("bench")
@with_config
@click.option("--only", multiple=True, metavar="KERNEL", help="Only this kernel; may be repeated.")
@click.option(
    "--engine",
    default="isa",
    show_default=True,
    help="isa: the simulator in software; else the netlist: auto, levelized, cxxrtl, verilator, amaranth.",
)
@with_json
@click.option("-o", "--output", type=OUT, help="Write the table to a file too.")
def bench_command(
    config: str | None, only: tuple[str, ...], engine: str, json_file: str | None, output: Path | None
) -> None:
    """Measure 11 kernels, each checked against numpy: elements per cycle, and the geometric means."""
    from tg2hdl_tpu.bench import bench, bench_facts, bench_table

    machine = read_config(config)
    found = bench(machine, only=only, engine=engine, progress=say)
    table = bench_table(found, machine, engine)
    if json_file != "-":
        click.echo(table, nl=False)
    if output:
        write_file(output, table)
    write_json(json_file, bench_facts(found, machine, engine))


@tpu.command("isa")
@with_config
@click.option("--c-header", is_flag=True, help="Print the parameters and codes as a C header instead.")
@with_json
def isa_command(config: str | None, c_header: bool, json_file: str | None) -> None:
    """Print the page of instructions: encoding, cycles, meaning."""
    machine = read_config(config)
    if json_file != "-":
        if c_header:
            from tg2hdl_tpu.csource import generated_header

            click.echo(generated_header(machine), nl=False)
        else:
            click.echo(isa_page(machine), nl=False)
    write_json(json_file, isa_facts(machine))


tpu.add_command(build_command)
