"""``tg2hdl tpu build``: a bitstream, a simulated device, or figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from tg2hdl_ir import InputError, ToolMissingError
from tg2hdl_tpu.cli_common import no_boards, read_config, say, with_config, with_json, write_json
from tg2hdl_tpu.config import Config

__all__ = ["build_command"]


@click.command("build")
@with_config
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
@with_json
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

    With --board and -o: a bitstream with a serial line, and the files of its driver. With only -o: the same for the
    simulation, as `tg2hdl tpu run --device simulate:DIR` takes it. Else: a tensor core without pins and external
    memory is synthesized, placed and routed for --part.
    """
    machine = _sized(config, array, sizes, board=bool(board))
    if not board:
        _refuse_given("a board: add --board and -o", "baud")
        if output or no_place:
            _refuse_given("a board, or place and route for --part", "clock")
    if output or board:
        _refuse_given("figures only: leave -o and --board out", "part", "speed", "seeds", "no_place")
        _build_folder(machine, output, board, clock, baud, json_file)
        return
    try:
        from tg2hdl_synth import part_named, synthesize
        from tg2hdl_synth.families import tools_of
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
        floorplan=core_floorplan(machine) if tools_of(part_named(part).family).takes_floorplan else None,
        progress=say,
    )
    if json_file != "-":
        click.echo(result.format())
    write_json(json_file, result.to_dict())


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


def _sized(config: str | None, array: str | None, sizes: dict[str, int | None], *, board: bool) -> Config:
    """A machine with the sizes that the options name; one for a board has registers and memories that boards have."""
    changes: dict[str, Any] = {name: value for name, value in sizes.items() if value is not None}
    if array is not None:
        found = re.fullmatch(r"(\d+)x(\d+)", array)
        if not found:
            raise InputError(
                f"an array of {array}", where="--array", hint="write rows x columns, such as 4x4"
            )
        changes |= {"rows": int(found[1]), "columns": int(found[2])}
    if config is None and board:
        return Config.ecp5(**{"lanes": 4, "vmem_rows": 1024, "xmem_rows": 1024} | changes)
    read_config(config)  # faults of the file itself
    try:
        return read_config(config, **changes)
    except InputError as error:
        if error.message.split()[0] in changes or config is None:
            raise
        given = " ".join(
            f"--{name.replace('_', '-')} {value}" for name, value in sizes.items() if value is not None
        )
        note = f"the file does not fit {given or f'--array {array}'}"
        raise InputError(error.message, where=config, notes=(note,), hint=error.hint) from None


def _build_folder(
    machine: Config,
    output: Path | None,
    board: str | None,
    clock: float | None,
    baud: int | None,
    json_file: str | None,
) -> None:
    if output is None:
        raise InputError("a bitstream needs a folder to go to", where="--board", hint="add -o DIR")
    try:
        from tg2hdl_tpu.board.folder import build_folder

        if board:
            from tg2hdl_synth.boards.bitstream import check_board

            check_board(board)
    except ImportError as error:
        raise no_boards(error) from None
    facts = build_folder(machine, output, board=board, clock=clock, baud=baud, progress=say)
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
    write_json(json_file, {"folder": str(output), **facts})
