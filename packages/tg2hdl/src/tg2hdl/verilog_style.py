"""Verilog of Yosys as an engineer reads it: simple names, only attributes that the plan states, and lint waivers."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["LINT_FOOTER", "LINT_HEADER", "simple_names", "with_kept_attributes"]

_WAIVERS = {
    "DECLFILENAME": "all modules of the design are in this file",
    "WIDTH": "Verilog extends the operands of an expression to its width, as the netlist means it",
    "UNUSEDSIGNAL": "a sum has all its bits where its reader takes some, and a unit has all its ports",
    "UNOPTFLAT": "bits of a vector depend on other bits of it; there is no combinational loop",
}
"""Rules of ``verilator --lint-only -Wall`` that a netlist does not follow, and the reasons."""
LINT_HEADER = "".join(
    [f"/* verilator lint_off {rule} */  // {reason}\n" for rule, reason in _WAIVERS.items()]
)
LINT_FOOTER = "".join([f"/* verilator lint_on {rule} */\n" for rule in _WAIVERS])

_KEPT = ("keep", "ram_style", "use_dsp")
_ATTRIBUTE = re.compile(r"[ \t]*\(\* \\?(?P<name>[\w.]+) *= (?:\"[^\"]*\"|[^\"*])* ?\*\)[ \t]*\n?")
_ESCAPED = re.compile(r"\\(\S+) ")


def with_kept_attributes(text: str) -> str:
    """Verilog with attributes that matter to synthesis; others describe how Amaranth and Yosys made it."""
    return _ATTRIBUTE.sub(lambda found: found[0] if found["name"] in _KEPT else "", text)


def simple_names(text: str) -> tuple[str, Mapping[str, str]]:
    """Replace escaped identifiers, which VHDL and many scripts do not take, by letters, digits and underscores.

    Returns
    -------
    text, names : str, mapping of str to str
        The Verilog, and the new name of each escaped identifier.  A name is replaced by the same one in all modules.
    """
    taken = set(re.findall(r"[A-Za-z_]\w*", text))
    names: dict[str, str] = {}
    for escaped in dict.fromkeys(_ESCAPED.findall(text)):
        plain = re.sub(r"[\W_]+", "_", escaped, flags=re.ASCII).strip("_") or "n"
        plain = plain if not plain[0].isdigit() else f"n{plain}"
        # A word that Yosys escapes is a keyword.
        name, number = (plain, 0) if plain != escaped else (f"{plain}_0", 0)
        while name in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(name)
        names[escaped] = name
    return _ESCAPED.sub(lambda found: names[found[1]], text), names
