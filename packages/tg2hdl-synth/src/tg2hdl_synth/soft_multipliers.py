"""Products built from LUTs, for designs with more products than the part has hard multipliers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Product", "products", "soft_multiplier", "soft_products"]

_FACTOR = 18
_HARD = re.compile(r"^  cell \\MULT18X18D ", re.MULTILINE)
_ITEM = re.compile(
    r"^module \\(?P<module>\S+)$"
    r"|^  cell \$mul (?P<name>\S+)\n(?P<body>(?:    .*\n)*)",
    re.MULTILINE,
)
_WIDTH = re.compile(r"parameter \\([AB])_WIDTH (\d+)")


@dataclass(frozen=True)
class Product:
    """A multiplication in RTLIL.

    Parameters
    ----------
    module, name : str
        Where it is.
    widths : (int, int)
        Bits of the factors.
    """

    module: str
    name: str
    widths: tuple[int, int]

    @property
    def blocks(self) -> int:
        """Hard multipliers of 18x18 bits that it takes."""
        a, b = self.widths
        return -(-a // _FACTOR) * -(-b // _FACTOR)


def products(rtlil: str) -> list[Product]:
    """Multiplications of a design that may take hard multipliers, in the order of the text."""
    found = []
    module = ""
    for match in _ITEM.finditer(rtlil):
        if match["module"]:
            module = match["module"]
            continue
        widths = dict(_WIDTH.findall(match["body"]))
        found.append(Product(module, match["name"], (int(widths["A"]), int(widths["B"]))))
    return found


def soft_products(rtlil: str, blocks: int) -> list[Product]:
    """Products to build from LUTs so that the rest fits `blocks` hard multipliers: the smallest, of equals the last."""
    every = products(rtlil)
    excess = sum(p.blocks for p in every) + len(_HARD.findall(rtlil)) - blocks
    chosen = []
    for product in sorted(reversed(every), key=lambda p: p.widths[0] * p.widths[1]):
        if excess <= 0:
            break
        chosen.append(product)
        excess -= product.blocks
    return chosen


def soft_multiplier() -> str:
    """Verilog that replaces a product on an ECP5."""
    return (files("tg2hdl_synth") / "soft_multiplier.v").read_text()
