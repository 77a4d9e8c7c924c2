"""``tg2hdl.toml``: options of a project, as defaults of the command line."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from tg2hdl_ir import InputError, Tg2hdlError

__all__ = ["NAME", "SHARED", "find_config", "read_config", "settings_of"]

NAME = "tg2hdl.toml"
SHARED = "model"
"""Table for all commands that take a model."""
log = logging.getLogger("tg2hdl")


def find_config(start: Path) -> Path | None:
    """The file of a folder, or of the nearest one above it that has one."""
    return next((folder / NAME for folder in (start, *start.parents) if (folder / NAME).is_file()), None)


def read_config(path: Path, commands: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Tables of a file by command.

    Parameters
    ----------
    path : Path
    commands : iterable of str
        Names that may have a table.

    Raises
    ------
    InputError
        For a file that cannot be read, and a table that is for no command.
    """
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{NAME} cannot be read: {error}",
            where=str(path),
            hint="correct it, or leave it out with --no-config",
        ) from error
    tables = (SHARED, *commands)
    for name, table in found.items():
        if name not in tables or not isinstance(table, dict):
            is_option = name not in tables and not isinstance(table, dict)
            raise InputError(
                f"{name!r} is {'outside of the tables' if is_option else 'not a table of a command'}",
                where=str(path),
                hint=f"write options into one of the tables [{'], ['.join(tables)}]",
            )
    return found


def settings_of(
    command: click.Command,
    name: str,
    tables: Mapping[str, dict[str, Any]],
    path: Path,
    context: click.Context,
) -> dict[str, Any]:
    """Values of the parameters of a command, by the names of click; a group has those of its commands by theirs.

    Parameters
    ----------
    command : click.Command
    name : str
        Of its table, such as ``build`` or ``tpu.build``.
    tables : mapping of str to dict
        As `read_config` returns them.
    path : Path
        Of the file, for errors.
    context : click.Context
        Of the group that has the command.

    Raises
    ------
    InputError
        For an option that the command does not have, or a value that it does not take.
    """
    own = _options(command, context)
    table = dict(tables.get(name.rpartition(".")[2], {}))
    found: dict[str, Any] = {}
    if isinstance(command, click.Group):
        for inner in [key for key, value in table.items() if isinstance(value, dict)]:
            within = command.get_command(context, inner)
            if within is not None:
                found[inner] = settings_of(within, f"{name}.{inner}", table, path, context)
                del table[inner]
    shared = command.shared_options() if hasattr(command, "shared_options") else set()
    for place, values, known in ((SHARED, tables.get(SHARED, {}), shared), (name, table, own)):
        if place == SHARED and not shared:
            continue
        for key, value in values.items():
            if key not in known:
                raise InputError(
                    f"[{place}] has the unknown option {key!r}",
                    where=str(path),
                    hint=f"known: {', '.join(sorted(known)) or 'none'}",
                )
            if option := own.get(key):
                found[str(option.name)] = _value(option, key, value, f"{path}, [{place}]", context)
    if found:
        log.info("options of %s for %s: %s", path, name, ", ".join(f"{k}={v}" for k, v in found.items()))
    return found


def _options(command: click.Command, context: click.Context) -> dict[str, click.Option]:
    """Options of a command by their long names without dashes."""
    return {
        max(option.opts, key=len).lstrip("-"): option
        for option in command.get_params(context)
        if isinstance(option, click.Option) and option.expose_value and option.name != "help"
    }


def _value(option: click.Option, key: str, value: Any, where: str, context: click.Context) -> Any:
    """The value of an option, checked as on the command line."""
    several = option.multiple or option.nargs != 1
    values = value if several and isinstance(value, list) else [value]
    fault = next((text for one in values if (text := _unfit(option, one))), "")
    if not fault:
        given = values if option.is_flag else [str(one) for one in values]
        try:
            option.type_cast_value(context, given if several else given[0])
            return given if several else given[0]
        except click.BadParameter as error:
            fault = error.message
        except Tg2hdlError as error:
            raise InputError(error.message, where=where, notes=error.notes, hint=error.hint) from error
    raise InputError(f"{key} = {value!r}: {fault}", where=where, hint=option.help)


def _unfit(option: click.Option, value: Any) -> str:
    if option.is_flag:
        return "" if isinstance(value, bool) else "it is true or false"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return "it takes a text or a number" + (", or a list of them" if option.multiple else "")
    return ""
