"""``tg2hdl loopback``: the serial line of a board by itself."""

from __future__ import annotations

from pathlib import Path

import click

from tg2hdl.cli.common import stage
from tg2hdl.cli.families import completes
from tg2hdl.cli.output import check_folder, consoles, with_json, write_json
from tg2hdl_host import HostError, SerialTransport
from tg2hdl_host.loopback import check_loopback
from tg2hdl_ir import SimulationError

__all__ = ["loopback"]

_EPILOG = """\b
Examples:
  tg2hdl loopback --board ulx3s-85f -o build/loopback     the bitstream, once
  tg2hdl program build/loopback
  tg2hdl loopback /dev/ttyUSB0 --baud 3000000
"""


@click.command("loopback", epilog=_EPILOG)
@click.argument("port", required=False)
@click.option(
    "--baud", type=click.IntRange(9600), default=1_000_000, show_default=True, help="Bits per second."
)
@click.option(
    "--board", shell_complete=completes("tg2hdl_boards"), help="Build the bitstream for this board."
)
@click.option("-o", "--output", metavar="DIR", help="Where to write it.  [default: build/loopback]")
@with_json
def loopback(
    port: str | None, baud: int, board: str | None, output: str | None, json_file: str | None
) -> None:
    """Tell a dead cable from a dead design: send bytes on PORT that must come back.

    With --board it builds a bitstream that sends back what it receives, through a wire that needs no clock, and blinks
    an LED by the clock. If its bytes come back, cable, bridge and pins work, and a design that does not answer has a
    fault of its own. A design that answers is recognized.
    """
    if (port is None) == (board is None):
        raise click.UsageError("give a PORT to test, or --board to build the bitstream")
    console, progress = consoles(json_file)
    if board is not None:
        from tg2hdl_synth.boards.loopback import build_loopback

        folder = Path(output or "build/loopback")
        check_folder(str(folder))
        with stage(progress, f"building for {board}") as report:
            made = build_loopback(board, folder, progress=report)
        console.print(f"wrote {made.path}", highlight=False, soft_wrap=True)
        console.print(f"next: tg2hdl program {folder}, then tg2hdl loopback /dev/ttyUSB0", highlight=False)
        write_json(json_file, {"folder": str(folder), "bitstream": made.path.name})
        return
    try:
        transport = SerialTransport(str(port), baud)
        try:
            found = check_loopback(transport)
        finally:
            transport.close()
    except HostError as error:
        raise SimulationError(error.message, where=error.stage, hint=error.hint) from None
    console.print(
        "a design answers: cable, bridge and pins work"
        if found.is_design
        else f"{found.count:,} bytes came back unchanged at {baud:,} baud: cable, bridge and pins work",
        highlight=False,
    )
    write_json(json_file, {"design_answers": found.is_design, "bytes": found.count, "baud": baud})
