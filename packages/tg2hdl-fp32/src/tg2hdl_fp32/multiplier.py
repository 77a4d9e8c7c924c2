"""Unsigned multiplication in limbs of at most 18 bits, with registers in the multiplier blocks."""

__all__ = ["Multiplier18", "multiply"]

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipeline import Pipeline
from .timing import add_delay

_LIMB = 18


class Multiplier18(wiring.Component):
    """One MULT18X18D of an ECP5 with its own registers, or the same in portable logic.

    Parameters
    ----------
    registers : iterable of str
        Registers in use, of ``input``, ``pipeline`` and ``output``.
    target : str
        ``ecp5`` instantiates the block.
    domain : str
        Clock domain.

    Members
    -------
    a, b : In(18)
        Unsigned factors.
    en : In(1)
        Clock enable of all registers.
    product : Out(36)
        Product, as many enabled cycles later as there are registers.
    """

    def __init__(
        self, registers: Iterable[str] = (), *, target: str = "generic", domain: str = "sync"
    ) -> None:
        self.registers = tuple(registers)
        self.target = target
        self.domain = domain
        super().__init__({"a": In(_LIMB), "b": In(_LIMB), "en": In(1), "product": Out(2 * _LIMB)})

    def elaborate(self, platform: Any) -> Module:
        """Build the block."""
        m = Module()
        if self.target == "ecp5":
            m.submodules.dsp = self._instance()
            return m
        a, b = self.a, self.b
        if "input" in self.registers:
            a, b = self._register(m, a), self._register(m, b)
        product: Value = a * b
        for name in ("pipeline", "output"):
            if name in self.registers:
                product = self._register(m, product)
        m.d.comb += self.product.eq(product)
        return m

    def _register(self, m: Module, value: Value) -> Signal:
        register = Signal.like(value, name="held", reset_less=True)
        with m.If(self.en):
            m.d[self.domain] += register.eq(value)
        return register

    def _instance(self) -> Instance:
        ports: dict[str, Any] = {f"i_{x}{k}": getattr(self, x.lower())[k] for x in "AB" for k in range(18)}
        ports |= {f"o_P{k}": self.product[k] for k in range(36)}
        ports |= {f"i_{name}": Const(0, 1) for name in ("SIGNEDA", "SIGNEDB", "SOURCEA", "SOURCEB")}
        ports |= {f"i_{kind}{k}": Const(0, 1) for kind in ("RST", "CE", "CLK") for k in range(4)}
        if self.registers:
            ports |= {"i_CLK0": ClockSignal(self.domain), "i_CE0": self.en}
        parameters: dict[str, Any] = {}
        for stage, name in (
            ("INPUTA", "input"),
            ("INPUTB", "input"),
            ("PIPELINE", "pipeline"),
            ("OUTPUT", "output"),
        ):
            parameters[f"p_REG_{stage}_CLK"] = "CLK0" if name in self.registers else "NONE"
            parameters[f"p_REG_{stage}_CE"] = "CE0"
            parameters[f"p_REG_{stage}_RST"] = "RST0"
        return Instance("MULT18X18D", **parameters, **ports)


def _add_rows(x: tuple[int, Value], y: tuple[int, Value]) -> tuple[int, Value]:
    (low, below), (high, above) = sorted((x, y), key=lambda row: row[0])
    gap = high - low
    if gap >= len(below):
        return low, Cat(below, Const(0, gap - len(below)) if gap > len(below) else Const(0, 0), above)
    return low, Cat(below[:gap], below[gap:] + above)


def multiply(p: Pipeline, name: str, a: Value, b: Value, *, target: str = "generic", cuts: int = 3) -> None:
    """Set ``p[name]`` to the full product of two unsigned values of the present stage.

    Adds the three cuts of the multiplier blocks, and one after each addition of partial products but the
    last; the caller cuts after that one.

    Parameters
    ----------
    name : str
        Name of the product.
    a, b : Value
        Factors.
    target : str
        ``ecp5`` or ``ecp5_model`` for hard blocks, anything else for one multiplication to be inferred.
    cuts : int
        Cuts to make at least, for a path beside this one that needs them.
    """
    width = len(a) + len(b)
    if target not in ("ecp5", "ecp5_model"):
        p[f"{name}_a"], p[f"{name}_b"] = a, b
        p.cut()
        p[name] = p[f"{name}_a"] * p[f"{name}_b"]
        p.delay(4.6 if max(len(a), len(b)) <= _LIMB else 7.5)
        for _ in range(max(cuts, 3) - 1):
            p.cut()
        return
    counts = [-(-len(x) // _LIMB) for x in (a, b)]
    sizes = [-(-len(x) // n) for x, n in zip((a, b), counts, strict=True)]
    limbs = [
        [x[i * size : (i + 1) * size] for i in range(n)]
        for x, size, n in zip((a, b), sizes, counts, strict=True)
    ]
    before = p.stage
    registers: list[str] = []
    made = 3
    for register, delay in (("input", 0.0), ("pipeline", 2.6), ("output", 2.6)):
        p.delay(delay)
        p.cut()
        if p.stage > before + len(registers):
            registers.append(register)
    rows: dict[int, list[tuple[int, Value]]] = {}
    for i, x in enumerate(limbs[0]):
        for j, y in enumerate(limbs[1]):
            block = Multiplier18(registers, target=target, domain=p.domain)
            p.module.submodules[f"{name}_{i}_{j}"] = block
            p.drive(block.a.eq(x))
            p.drive(block.b.eq(y))
            p.drive(block.en.eq(p.enable))
            part = p.adopt(block.product)[: len(x) + len(y)]
            rows.setdefault(j - i, []).append((i * sizes[0] + j * sizes[1], part))
    # Products on one diagonal do not overlap, or touch by carries only when limbs differ in size.
    sums = [_join(parts) for _, parts in sorted(rows.items(), key=lambda item: -abs(item[0]))]
    while len(sums) > 1:
        paired = [
            _add_rows(*sums[k : k + 2]) if k + 1 < len(sums) else sums[k] for k in range(0, len(sums), 2)
        ]
        p.delay(add_delay(max(len(value) for _, value in paired)))
        sums = paired
        if len(sums) > 1:
            for k, (_, value) in enumerate(sums):
                p[f"{name}_row{k}"] = value
            p.cut()
            made += 1
            sums = [(shift, p[f"{name}_row{k}"]) for k, (shift, _) in enumerate(sums)]
    shift, value = sums[0]
    for _ in range(made, cuts):
        p[f"{name}_sum"] = value
        p.cut()
        value = p[f"{name}_sum"]
    p[name] = Cat(Const(0, shift), value)[:width] if shift else value[:width]


def _join(parts: list[tuple[int, Value]]) -> tuple[int, Value]:
    parts = sorted(parts, key=lambda part: part[0])
    total = parts[0]
    for part in parts[1:]:
        total = _add_rows(total, part)
    return total
