"""Unsigned multiplication in limbs of at most 18 bits, with registers in the multiplier blocks."""

__all__ = ["LimbMultiplier", "multiply"]

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipeline import Pipeline
from .timing import add_delay, lut_delay

_LIMB = 18


class LimbMultiplier(wiring.Component):
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


def multiply(
    p: Pipeline,
    name: str,
    a: Value,
    b: Value,
    *,
    tops: tuple[Value, Value] | None = None,
    target: str = "generic",
    cuts: int = 3,
) -> None:
    """Set ``p[name]`` to the full product of two unsigned values of the present stage.

    Adds the three cuts of the multiplier blocks, and one after each addition of partial products but the
    last; the caller cuts after that one.

    Parameters
    ----------
    p : Pipeline
    name : str
        Name of the product.
    a, b : Value
        Factors.
    tops : pair of Value, optional
        One more bit on top of each factor (which then have equal widths), for bits that come late: the blocks
        multiply without them, and their contribution is added to the products of the blocks.
    target : str
        ``ecp5`` or ``ecp5_model`` for hard blocks, anything else for multiplications to be inferred.
    cuts : int
        Cuts to make at least, for a parallel path that needs them.
    """
    hard = target in ("ecp5", "ecp5_model")
    if not hard and max(len(a), len(b)) + (tops is not None) <= _LIMB:
        if tops is not None:
            a, b = Cat(a, tops[0]), Cat(b, tops[1])
        p[f"{name}_a"], p[f"{name}_b"] = a, b
        p.cut()
        p[name] = p[f"{name}_a"] * p[f"{name}_b"]
        p.delay(4.6)
        for _ in range(max(cuts, 3) - 1):
            p.cut()
        return
    width = len(a) + len(b) + (0 if tops is None else 2)
    start = p.mark()
    limbs = [_split(factor) for factor in (a, b)]
    registers = _cut_blocks(p, hard)
    blocks: list[tuple[int, int]] = []
    for i, (_, x) in enumerate(limbs[0]):
        for j, (_, y) in enumerate(limbs[1]):
            block = LimbMultiplier(registers, target=target, domain=p.domain)
            p.add(f"{name}_{i}_{j}", block)
            p.drive(block.a.eq(x))
            p.drive(block.b.eq(y))
            p.drive(block.en.eq(p.enable))
            p[f"{name}_{i}_{j}"] = p.adopt(block.product)[: len(x) + len(y)]
            blocks.append((i, j))
    diagonals = sorted({j - i for i, j in blocks}, key=abs, reverse=True)
    additions = (len(diagonals) + (tops is not None) - 1).bit_length()
    # Spare cuts help most on the path from the blocks.
    for _ in range(3 + max(additions - 1, 0), cuts):
        p.delay(1.0 if hard else 0.0)
        p.cut()
    if tops is not None:
        with p.beside(start):
            _add_tops(p, name, a, b, tops)
    # Products on one diagonal do not overlap, or touch by carries only when limbs differ in size.
    sums = [
        _join([(limbs[0][i][0] + limbs[1][j][0], p[f"{name}_{i}_{j}"]) for i, j in blocks if j - i == k])
        for k in diagonals
    ]
    if tops is not None:
        sums.append((len(a), p[f"{name}_tops"]))
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
            sums = [(shift, p[f"{name}_row{k}"]) for k, (shift, _) in enumerate(sums)]
    shift, value = sums[0]
    p[name] = Cat(Const(0, shift), value)[:width] if shift else value[:width]


def _split(value: Value) -> list[tuple[int, Value]]:
    """Cut a factor into equal limbs, with their places."""
    size = -(-len(value) // -(-len(value) // _LIMB))
    return [(k, value[k : k + size]) for k in range(0, len(value), size)]


def _cut_blocks(p: Pipeline, hard: bool) -> list[str]:
    """Make the three cuts of the blocks, and return the names of those that are registers."""
    before = p.stage
    registers: list[str] = []
    # Registers around an inferred multiplication stay outside the block, so that more than two are of no use.
    for register, delay in (
        ("input", 0.0),
        ("pipeline", 2.6 if hard else 6.0),
        ("output", 3.3 if hard else 0.0),
    ):
        p.delay(delay)
        p.cut()
        if p.stage > before + len(registers):
            registers.append(register)
    return registers


def _add_tops(p: Pipeline, name: str, a: Value, b: Value, tops: tuple[Value, Value]) -> None:
    """Set ``p[name + "_tops"]`` to the top bits' part of the product, in the stages of the blocks."""
    p[f"{name}_a"], p[f"{name}_b"] = a, b
    p[f"{name}_top_a"], p[f"{name}_top_b"] = tops
    p.cut()
    top_a, top_b = p[f"{name}_top_a"], p[f"{name}_top_b"]
    p[f"{name}_a"] = Cat(p[f"{name}_a"] & top_b.replicate(len(a)), top_a & top_b)
    p[f"{name}_b"] = p[f"{name}_b"] & top_a.replicate(len(b))
    p.delay(lut_delay())
    p.cut()
    p[f"{name}_tops"] = p[f"{name}_a"] + p[f"{name}_b"]
    p.delay(add_delay(len(a)))
    p.cut()


def _join(parts: list[tuple[int, Value]]) -> tuple[int, Value]:
    parts = sorted(parts, key=lambda part: part[0])
    total = parts[0]
    for part in parts[1:]:
        total = _add_rows(total, part)
    return total
