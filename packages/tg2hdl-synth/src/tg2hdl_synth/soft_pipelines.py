"""Pipelined LUT products: registers of the operands and of the product move between the partial sums.

A hard multiplier has registers at its ports, which the design provides.  A LUT product needs them inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tg2hdl_synth.soft_multipliers import Product

__all__ = ["SOFT_PRODUCT", "with_soft_products"]

SOFT_PRODUCT = "\\tg2hdl_soft_mul"
"""Type of the cells that ``soft_multiplier.v`` replaces."""

_MODULE = re.compile(r"^module \\(\S+)$.*?^end$", re.MULTILINE | re.DOTALL)
_REGISTER = re.compile(
    r"^  cell \$dff \S+\n    parameter \\WIDTH (?P<width>\d+)\n    parameter \\CLK_POLARITY 1\n"
    r"    connect \\D (?P<d>.+)\n    connect \\CLK (?P<clk>.+)\n    connect \\Q (?P<q>.+)\n  end\n",
    re.MULTILINE,
)
_STARTS = re.compile(r"^  attribute \\init \d+'[01]*1[01]*\n  wire (?:.* )?(\\?\S+)$", re.MULTILINE)
_PIN = re.compile(r"^    connect \\([ABY]) (.+)$", re.MULTILINE)
_PARAMETER = re.compile(r"^    parameter .*\n", re.MULTILINE)
_WIDTH = {pin: re.compile(rf"parameter \\{pin}_WIDTH (\d+)") for pin in "ABY"}


@dataclass(frozen=True)
class _Register:
    """A ``$dff`` and its text; `d` and `q` with the slice of all of their bits."""

    text: str
    d: str
    clk: str
    q: str


def with_soft_products(rtlil: str, chosen: Iterable[Product]) -> str:
    """RTLIL in which these products are cells of the type `SOFT_PRODUCT`.

    Where both factors pass two consecutive registers, the second ones move after the rows of partial products; where
    the product passes two consecutive registers, the first one moves before the last sum.  Nothing else changes.
    """
    names: dict[str, set[str]] = {}
    for product in chosen:
        names.setdefault(product.module, set()).add(product.name)

    def changed(match: re.Match[str]) -> str:
        text = match[0]
        for name in sorted(names.get(match[1], ())):
            text = _with_soft_product(text, name)
        return text

    return _MODULE.sub(changed, rtlil)


def _with_soft_product(module: str, name: str) -> str:
    match = re.search(rf"^  cell \$mul {re.escape(name)}\n(?:    .*\n)*  end\n", module, re.MULTILINE)
    assert match is not None, "the product was found in this module"
    registers = _registers(module)
    nets = dict(_PIN.findall(match[0]))
    pins = {pin: _whole(net, int(_WIDTH[pin].search(match[0])[1])) for pin, net in nets.items()}  # type: ignore[index]
    stages, clock = 0, "1'0"
    factors = [registers[pins[p]] for p in "AB" if pins[p] in registers]
    if len(factors) == 2 and len({r.clk for r in factors}) == 1 and all(r.d in registers for r in factors):
        stages, clock = 1, factors[0].clk
        nets |= {"A": factors[0].d, "B": factors[1].d}
        behind = _only_reader(module, registers, pins["Y"])
        if behind is not None and behind.clk == clock and any(r.d == behind.q for r in registers.values()):
            stages = 2
            nets["Y"] = behind.q
            module = module.replace(behind.text, "")
    cell = (
        f"  cell {SOFT_PRODUCT} {name}\n    parameter \\STAGES {stages}\n"
        + "".join(_PARAMETER.findall(match[0]))
        + "".join(f"    connect \\{pin} {net}\n" for pin, net in {**nets, "CLK": clock}.items())
        + "  end\n"
    )
    return module.replace(match[0], cell)


def _registers(module: str) -> dict[str, _Register]:
    """Registers by their output, without those that have an enable or a reset or do not start at zero."""
    started = set(_STARTS.findall(module))
    found = (
        _Register(m[0], _whole(m["d"], int(m["width"])), m["clk"], _whole(m["q"], int(m["width"])))
        for m in _REGISTER.finditer(module)
        if m["q"].split(" ")[0] not in started
    )
    return {register.q: register for register in found}


def _only_reader(module: str, registers: dict[str, _Register], value: str) -> _Register | None:
    """The register that is the only reader of a value."""
    readers = [r for r in registers.values() if r.d == value]
    name = value.rsplit(" ", 1)[0]
    # Where it is declared, the product, and the register.
    mentions = len(re.findall(rf"(?<!\S){re.escape(name)}(?!\S)", module))
    return readers[0] if len(readers) == 1 and mentions == 3 else None


def _whole(net: str, width: int) -> str:
    """The same name for a net with and without its slice of all bits."""
    return net if net.endswith(f" [{width - 1}:0]") else f"{net} [{width - 1}:0]"
