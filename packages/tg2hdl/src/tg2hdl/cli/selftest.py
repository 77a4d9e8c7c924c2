"""``tg2hdl selftest``: stored vectors on a board."""

from __future__ import annotations

import click

from tg2hdl.cli.output import consoles, with_json, write_json
from tg2hdl_host import HostError, connect, selftest
from tg2hdl_ir import SimulationError

__all__ = ["selftest_command"]


@click.command("selftest")
@click.argument("device")
@click.argument("folder", metavar="[DIR]", required=False)
@with_json
def selftest_command(device: str, folder: str | None, json_file: str | None) -> None:
    """Run the stored vectors of a built design on DEVICE and compare every bit.

    DEVICE is a serial port, a URL of pyserial, spi:BUS.CHIP or simulate:DIR; DIR is what `tg2hdl build` wrote,
    which simulate:DIR names already. The first stage that does not answer, or differs, is named.
    """
    console, progress = consoles(json_file)
    folder = folder or (device.removeprefix("simulate:") if device.startswith("simulate:") else None)
    if folder is None:
        raise click.UsageError("give the folder that `tg2hdl build` wrote as the second argument")
    try:
        with connect(device, folder) as connected:
            count = selftest(connected, folder, report=lambda text: progress.print(text, highlight=False))
            counters = connected.counters
    except HostError as error:
        raise SimulationError(error.message, where=error.stage, hint=error.hint) from None
    console.print(
        f"{count} vectors: every bit as stored; " + ", ".join(f"{k} {v}" for k, v in counters.items()),
        highlight=False,
    )
    write_json(json_file, {"vectors": count, "counters": counters})
