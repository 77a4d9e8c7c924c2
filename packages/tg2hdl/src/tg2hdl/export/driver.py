"""The C driver under the name of a design, so that one program can have several."""

from __future__ import annotations

import re
from importlib.resources import files

from tg2hdl_top.register_map import RegisterMap

__all__ = ["driver_files"]


def driver_files(found: RegisterMap, name: str) -> dict[str, str]:
    """``NAME.h``, ``NAME.c``, ``NAME_registers.h`` and ``NAME.rs``.

    Functions begin with ``NAME_``, macros with that in capitals.

    Parameters
    ----------
    found : RegisterMap
    name : str
        Of the export, in lower case.
    """
    folder = files("tg2hdl_host") / "c"

    def renamed(text: str) -> str:
        text = text.replace('"tg2hdl.h"', f'"{name}.h"').replace("registers.h", f"{name}_registers.h")
        text = re.sub(r"\bTG2HDL_", f"{name.upper()}_", text)
        return re.sub(r"\btg2hdl_", f"{name}_", text)

    header = found.c_header()
    constants = re.findall(r"^#define (TG2HDL_\w+) (0x[0-9a-f]+|\d+)(u|ULL)$", header, re.MULTILINE)
    types = {"u": "u32", "ULL": "u64"}
    rust = [f"pub const {each}: {types[kind]} = {value};\n" for each, value, kind in constants]
    return {
        f"driver/{name}.h": renamed((folder / "tg2hdl.h").read_text()),
        f"driver/{name}.c": renamed((folder / "tg2hdl.c").read_text()),
        f"driver/{name}_registers.h": renamed(header),
        f"driver/{name}.rs": renamed((folder / "tg2hdl.rs").read_text() + "".join(rust)),
    }
