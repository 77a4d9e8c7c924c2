"""Pipelined LUT products: registers of the operands and of the product move between the partial sums.

A hard multiplier has registers at its ports, which the design provides.  A LUT product needs them inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tg2hdl_synth.rtlil import Cell, Module, edited, read_rtlil
from tg2hdl_synth.soft_multipliers import SoftProduct

__all__ = ["SOFT_PRODUCT", "with_soft_products"]

SOFT_PRODUCT = "tg2hdl_soft_mul"
"""Type of the cells that ``soft_multiplier.v`` replaces."""


@dataclass(frozen=True)
class _Register:
    """A ``$dff``; `d` and `q` with the slice of all of their bits."""

    cell: Cell
    d: str
    clk: str
    q: str


def with_soft_products(rtlil: str, chosen: Iterable[SoftProduct]) -> str:
    """RTLIL in which these products are cells of the type `SOFT_PRODUCT`.

    Where both operands pass through two consecutive registers, the second ones move after the rows of partial
    products; where the product passes through two consecutive registers, the first one moves before the last sum.
    Nothing else changes.

    Parameters
    ----------
    rtlil : str
    chosen : iterable of SoftProduct
        Products of any modules of the design.
    """
    names: dict[str, set[str]] = {}
    for product in chosen:
        names.setdefault(product.module, set()).add(product.name)
    edits: list[tuple[tuple[int, int], str]] = []
    for module in read_rtlil(rtlil).values() if names else ():
        edits += _Pipelines(rtlil, module).edits(names.get(module.name, set()))
    return edited(rtlil, edits)


class _Pipelines:
    """The registers of a module, and how often its text mentions each name."""

    def __init__(self, rtlil: str, module: Module) -> None:
        self.rtlil = rtlil
        self.module = module

    def edits(self, names: set[str]) -> list[tuple[tuple[int, int], str]]:
        """Spans of the text with their replacements, for the products of these names."""
        if not names:
            return []
        self.mentions = Counter(self.text(self.module.span).split())
        self.registers = self._registers()
        self.found: list[tuple[tuple[int, int], str]] = []
        for product in sorted((c for c in self.module.cells if c.name in names), key=lambda c: c.name):
            self._replace(product)
        return self.found

    def text(self, span: tuple[int, int]) -> str:
        return self.rtlil[slice(*span)]

    def _edit(self, cell: Cell, new: str) -> None:
        self.found.append((cell.span, new))
        self.mentions.subtract(self.text(cell.span).split())
        self.mentions.update(new.split())

    def _replace(self, product: Cell) -> None:
        nets, registers = dict(product.pins), self.registers
        pins = {pin: _whole(net, product.width(f"{pin}_WIDTH")) for pin, net in nets.items()}
        stages, clock = 0, "1'0"
        operands = [registers[pins[p]] for p in "AB" if pins[p] in registers]
        if (
            len(operands) == 2
            and len({r.clk for r in operands}) == 1
            and all(r.d in registers for r in operands)
        ):
            stages, clock = 1, operands[0].clk
            nets |= {"A": operands[0].d, "B": operands[1].d}
            output = self._only_reader(pins["Y"])
            if output is not None and output.clk == clock and self._is_registered(output.q):
                stages = 2
                nets["Y"] = output.q
                self._edit(output.cell, "")
                del registers[output.q]
        parameters = [
            line for line in self.text(product.span).split("\n") if line.startswith("    parameter ")
        ]
        lines = [
            f"  cell \\{SOFT_PRODUCT} {product.name}",
            f"    parameter \\STAGES {stages}",
            *parameters,
            *(f"    connect \\{pin} {net}" for pin, net in {**nets, "CLK": clock}.items()),
            "  end\n",
        ]
        self._edit(product, "\n".join(lines))

    def _is_registered(self, value: str) -> bool:
        return any(register.d == value for register in self.registers.values())

    def _registers(self) -> dict[str, _Register]:
        """Registers by their output, without those that have an enable or a reset or do not start at zero."""
        found: dict[str, _Register] = {}
        for cell in self.module.cells:
            if cell.kind != "$dff" or cell.parameters["CLK_POLARITY"] != 1:
                continue
            output = cell.pins["Q"].split(" ")[0].removeprefix("\\")
            if "1" in self.module.initial.get(output, ""):
                continue
            width = cell.width("WIDTH")
            register = _Register(
                cell, _whole(cell.pins["D"], width), cell.pins["CLK"], _whole(cell.pins["Q"], width)
            )
            found[register.q] = register
        return found

    def _only_reader(self, value: str) -> _Register | None:
        """The register that is the only reader of a value."""
        readers = [r for r in self.registers.values() if r.d == value]
        # Where it is declared, the product, and the register.
        mentions = self.mentions[value.rsplit(" ", 1)[0]]
        return readers[0] if len(readers) == 1 and mentions == 3 else None


def _whole(net: str, width: int) -> str:
    """The same name for a net with and without its slice of all bits."""
    return net if net.endswith(f" [{width - 1}:0]") else f"{net} [{width - 1}:0]"
