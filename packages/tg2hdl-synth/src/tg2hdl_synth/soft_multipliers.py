"""Products built from LUTs, for designs with more products than the part has hard multipliers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tg2hdl_synth.rtlil import Module

__all__ = ["SoftProduct", "products", "soft_products"]

_FACTOR = 18
_HARD = "MULT18X18D"


@dataclass(frozen=True)
class SoftProduct:
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


def products(modules: Mapping[str, Module]) -> list[SoftProduct]:
    """Multiplications of a design that may take hard multipliers, in the order of the text."""
    return [
        SoftProduct(module.name, cell.name, (cell.width("A_WIDTH"), cell.width("B_WIDTH")))
        for module in modules.values()
        for cell in module.cells
        if cell.kind == "$mul"
    ]


def soft_products(modules: Mapping[str, Module], blocks: int) -> list[SoftProduct]:
    """Products to build from LUTs so that the rest fits `blocks` hard multipliers: the smallest, of equals the last.

    Parameters
    ----------
    modules : mapping of str to Module
        Of the design, by name.
    blocks : int
        Hard multipliers of the part.
    """
    every = products(modules)
    hard = sum(cell.kind == _HARD for module in modules.values() for cell in module.cells)
    excess = sum(p.blocks for p in every) + hard - blocks
    chosen = []
    for product in sorted(reversed(every), key=lambda p: p.widths[0] * p.widths[1]):
        if excess <= 0:
            break
        chosen.append(product)
        excess -= product.blocks
    return chosen
