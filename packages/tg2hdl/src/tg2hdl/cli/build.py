"""``tg2hdl build``: a model to a folder for a board or its simulation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tg2hdl.cli.common import (
    ModelCommand,
    compile_file,
    kernel_table,
    output_folder,
    say_fit,
    say_float,
    stage,
    with_model_options,
)
from tg2hdl.cli.families import completes
from tg2hdl.cli.links import link_for, with_link
from tg2hdl.cli.output import check_folder, consoles, with_json, write_json
from tg2hdl.cli.table import Table

__all__ = ["build"]

_EPILOG = """\b
Examples:
  tg2hdl build model.py --board ulx3s-85f -o build/digits       a bitstream, and all that its host needs
  tg2hdl program build/digits && tg2hdl selftest /dev/ttyUSB0 build/digits
  tg2hdl build model.py -o build/digits       for the simulation: tg2hdl.connect("simulate:build/digits")
"""


@click.command("build", cls=ModelCommand, epilog=_EPILOG)
@with_model_options
@click.option("-o", "--output", metavar="DIR", help="Where to write.  [default: build/NAME]")
@click.option("--vectors", default=8, show_default=True, help="Random vectors for `tg2hdl selftest`.")
@click.option(
    "--board",
    shell_complete=completes("tg2hdl_boards"),
    help="Board, of `tg2hdl plugins list --kind board`, or module:Class of a platform of Amaranth.  "
    "[default: simulation only]",
)
@click.option(
    "--clock", type=float, help="Clock of the board in MHz.  [default: the fastest that the design reaches]"
)
@click.option(
    "--baud",
    type=click.IntRange(9600),
    help="Serial line of the board, e.g. 3000000.  [default: the fastest of its bridge]",
)
@with_link
@click.option(
    "--ip", metavar="ADDRESS", help="IPv4 address on the board with --link udp.  [default: 192.168.1.50]"
)
@with_json
def build(
    output: str | None,
    vectors: int,
    board: str | None,
    clock: float | None,
    baud: int | None,
    link: str | None,
    ip: str | None,
    json_file: str | None,
    **model_options: Any,
) -> None:
    """Build a model for a board, or for a simulated one.

    With --board it writes a bitstream whose timing holds, with tools from wheels: pip install "tg2hdl[boards]".
    Writes the design, its register map as a page and a C header, the description for the driver, and vectors for
    `tg2hdl selftest`.
    """
    console, progress = consoles(json_file)
    if output is not None:
        check_folder(output)
    chosen = None
    if board is not None:
        from tg2hdl_synth.boards.bitstream import check_board

        chosen = check_board(board)
    elif ip is not None:
        raise click.UsageError("--ip goes with --board")
    if link is not None and model_options["ports"]:
        raise click.UsageError("--link names the host port: leave out --port")
    if not model_options["ports"]:
        model_options["ports"] = (link_for(link, chosen),)
    if clock is not None and model_options["memory_port"] is not None:
        from tg2hdl_top.external.memory_port import check_memory

        memory = check_memory(model_options["memory_port"], None)
        if memory.clock is not None:  # its times are counted in cycles
            model_options["memory"] = replace(memory, clock=clock)  # type: ignore[type-var]
    with stage(progress, f"compiling {model_options['model']}"):
        file, _, accelerator = compile_file(**model_options)
    console.print(kernel_table(accelerator, file.label))
    say_fit(console, accelerator, model_options["fit"])
    say_float(console, accelerator)
    folder = output_folder(output, file.label)
    with stage(progress, f"building for {board}" if board else "writing the folder") as report:
        accelerator.build(
            folder, board=board, clock=clock, baud=baud, ip=ip, vectors=vectors, progress=report
        )
    facts = json.loads((folder / "device.json").read_text())
    if board:
        microseconds = accelerator.predicted_cycles / facts["clock_mhz"]
        console.print(
            f"{board}: clock {facts['clock_mhz']:.1f} MHz, reaches {facts['fmax_mhz']:.1f} MHz "
            f"(limited by {facts['fmax_limit'] or 'the clock'}); "
            f"{microseconds:,.1f} us per result, {_link(facts)}",
            highlight=False,
        )
        console.print(_usage_table(facts["by_part"]))
        used = (f"{kind} {n:,} of {count:,}" for kind, (n, count) in facts["utilization"].items())
        console.print("; ".join(used), highlight=False)
    console.print(
        f"wrote {', '.join(sorted(path.name for path in folder.iterdir()))} to {folder}", highlight=False
    )
    console.print(_next_step(folder, board, facts), highlight=False, soft_wrap=True)
    kept = {"board", "clock_mhz", "fmax_mhz", "fmax_limit", "link", "link_clocks", "baud"}
    kept |= {"utilization", "by_part", "id"}
    figures = {name: fact for name, fact in facts.items() if name in kept}
    write_json(
        json_file, {"folder": str(folder), "predicted_cycles": accelerator.predicted_cycles, **figures}
    )


def _link(facts: dict[str, Any]) -> str:
    if facts["baud"]:
        return f"serial line {facts['baud']:,} baud"
    clocks = (
        f", clock {has:.1f} MHz, reaches {reached:.1f} MHz" for has, reached in facts.get("link_clocks", ())
    )
    return f"link {facts['link']}{''.join(clocks)}"


def _next_step(folder: Path, board: str | None, facts: dict[str, Any]) -> str:
    if board is None:
        return f'next: tg2hdl selftest simulate:{folder}, or tg2hdl.connect("simulate:{folder}") in Python'
    from tg2hdl_top.ports import link_class

    device = f"udp:{facts['ip']}" if "ip" in facts else link_class(facts["link"]).device
    return f"next: tg2hdl program {folder}, then tg2hdl selftest {device} {folder}"


def _usage_table(by_part: dict[str, dict[str, int]]) -> Table:
    """Cells of each kernel, host port and the rest, and their sum."""
    columns = list(next(iter(by_part.values())))
    table = Table("")
    for column in columns:
        table.add_column(column, justify="right")
    total = {c: sum(counts[c] for counts in by_part.values()) for c in columns}
    for name, counts in {**by_part, "total": total}.items():
        table.add_row(name, *(f"{counts[c]:,}" for c in columns))
    return table
