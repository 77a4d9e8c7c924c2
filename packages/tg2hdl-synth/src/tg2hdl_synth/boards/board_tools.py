"""The commands that Amaranth's build scripts call, from wheels."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tg2hdl_ir import InputError, ToolMissingError, registry
from tg2hdl_ir.cache_folder import tool_cache
from tg2hdl_synth.families import tools_of

__all__ = ["check_tools", "tool_environment"]

# Some platforms demand the programmer of the board before they build anything.
_UNUSED = {"OPENFPGALOADER": "true", "DFU_SUFFIX": "true"}


def check_tools(family: str) -> None:
    """Check that the wheels for the bitstreams of a family are installed.

    Raises
    ------
    InputError
        For a family without such tools.
    ToolMissingError
        When a wheel is not installed.
    """
    tools = tools_of(family)
    if not tools.board_tools:
        others = (flow.name for flow in registry().flows() if tools_of(flow.name).board_tools)
        raise InputError(
            f"no tools are known that make bitstreams for the family {family!r}",
            hint=f"families with tools: {', '.join(others)}",
        )
    missing = [tool.distribution for tool in tools.board_tools if not tool.installed]
    if importlib.util.find_spec("amaranth_boards") is None:
        missing.insert(0, "amaranth-boards")
    if missing:
        raise ToolMissingError(
            f"the Python package {missing[0]} is not installed", hint=f'pip install "{tools.requirement}"'
        )


@contextmanager
def tool_environment(family: str, folder: Path) -> Iterator[dict[str, str]]:
    """Environment in which Amaranth finds the tools of a family; scripts that call the wheels go to `folder`.

    Parameters
    ----------
    family : str
        Name of the family.
    folder : Path
        Made if it does not exist.
    """
    variables = {**_UNUSED, "YOWASP_CACHE_DIR": str(tool_cache("YOWASP_CACHE_DIR"))}
    folder.mkdir(parents=True, exist_ok=True)
    for tool in tools_of(family).board_tools:
        variable = tool.name.upper().replace("-", "_")
        script = folder / variable.lower()
        script.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{tool.code}' \"$@\"\n")
        script.chmod(0o755)
        variables[variable] = str(script.resolve())
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield {**os.environ}
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
