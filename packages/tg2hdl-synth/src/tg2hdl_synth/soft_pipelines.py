"""Products of LUTs with registers between their sums, which come from in front of the factors and from behind.

A hard multiplier has registers at its ports, for which a design provides.  A product of LUTs needs them inside.
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
_PIN = re.compile(r"^    connect \\([ABY]) (.+)$", re.MULTILINE)
_PARAMETER = re.compile(r"^    parameter .*\n", re.MULTILINE)
_SLICE = re.compile(r" \[(\d+):0\]$")


@dataclass(frozen=True)
class _Register:
    text: str
    d: str
    clk: str
    q: str


def with_soft_products(rtlil: str, chosen: Iterable[Product]) -> str:
    """RTLIL in which these products are cells of the type `SOFT_PRODUCT`.

    Where both factors come from two registers in a row, the later ones go behind the rows of partial products; where
    the product goes to two registers in a row, the first one goes in front of the last sum.  Nothing else changes.
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
    registers = {
        _whole(m["q"], int(m["width"])): _Register(m[0], _whole(m["d"], int(m["width"])), m["clk"], m["q"])
        for m in _REGISTER.finditer(module)
    }
    pins = dict(_PIN.findall(match[0]))
    widths = {p: int(w) for p, w in re.findall(r"parameter \\([ABY])_WIDTH (\d+)", match[0])}
    factors = [registers.get(_whole(pins[p], widths[p])) for p in "AB"]
    stages, clock, before = 0, "1'0", module
    if all(r is not None and r.d in registers for r in factors):
        (a, b) = (r for r in factors if r is not None)
        if a.clk == b.clk:
            stages, clock = 1, a.clk
            pins |= {"A": a.d, "B": b.d}
            behind = _only_register_behind(module, registers, _whole(pins["Y"], widths["Y"]), pins["Y"])
            if behind is not None and behind.clk == clock:
                stages = 2
                pins["Y"] = behind.q
                before = module.replace(behind.text, "")
    cell = (
        f"  cell {SOFT_PRODUCT} {name}\n    parameter \\STAGES {stages}\n"
        + "".join(_PARAMETER.findall(match[0]))
        + "".join(f"    connect \\{pin} {net}\n" for pin, net in {**pins, "CLK": clock}.items())
        + "  end\n"
    )
    return before.replace(match[0], cell)


def _only_register_behind(
    module: str, registers: dict[str, _Register], value: str, wire: str
) -> _Register | None:
    """The register that alone takes `value`, if another one follows it."""
    readers = [r for r in registers.values() if r.d == value]
    # Where it is declared, the product, and the register.
    mentions = len(re.findall(rf"(?<!\S){re.escape(wire)}(?!\S)", module))
    if len(readers) != 1 or mentions != 3:
        return None
    (first,) = readers
    follows = any(r.d == _whole(first.q, int(_SLICE.search(value)[1]) + 1) for r in registers.values())  # type: ignore[index]
    return first if follows else None


def _whole(net: str, width: int) -> str:
    """The same name for a net with and without its slice of all bits."""
    return net if net.endswith(f" [{width - 1}:0]") else f"{net} [{width - 1}:0]"
