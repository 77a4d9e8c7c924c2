"""Two words that are combined or not: an element of a reduction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tg2hdl_tpu.hardware.alu import INVERTS

__all__ = ["WordPair", "pair_controls"]


def pair_controls(
    m: Module, name: str, combines: Any, subtracts: Any, least: Any, valid: Any = None, *, registered: bool
) -> SimpleNamespace:
    """The operation of pairs; from registers if they are `registered`, and else from the values themselves.

    `sums` and `apart` clear the words that the other one does not need, if the pairs take something.

    Parameters
    ----------
    m : Module
        Of the reduction unit.
    name : str
        Begins the names of the registers.
    combines
        Whether the words of a pair become one; else both go on.
    subtracts
        Whether words are compared, by their difference, and not added.
    least
        Whether the comparison keeps the lesser word.
    valid
        Whether a row is there; always, without it.
    registered : bool
        Whether there is a register, with which the controls are a cycle later.
    """
    sums, there = combines & ~subtracts, Const(1) if valid is None else valid
    found: dict[str, Any] = {
        "combines": combines,
        "subtracts": subtracts,
        "least": least,
        "takes": there,
        "sums": sums & there,
        "apart": ~sums & there,
    }
    if registered:
        for key, value in found.items():
            if isinstance(value, Const):
                continue
            found[key] = Signal(name=f"{name}_{key}", reset_less=True)
            m.d.sync += found[key].eq(value)
    return SimpleNamespace(**found)


class WordPair:
    """Two words that are combined or not: a sum, or else two words and which of them is each result.

    Unused words are 0, so that a result is one level of logic after a register.
    """

    def __init__(self, name: str) -> None:
        self.words = [Signal(32, name=f"{name}_{part}", reset_less=True) for part in ("sum", "x", "y")]
        self.first = [Signal(name=f"{name}_{part}", reset_less=True) for part in ("low", "high")]
        #: The words before those that are not needed are cleared.
        self.raw: tuple[Value, ...] = ()

    def take(self, m: Module, other: WordPair, on: SimpleNamespace) -> None:
        """Assign all parts in the next cycle, if it takes them; unused ones are cleared.

        Parameters
        ----------
        m : Module
            Of the reduction unit.
        other : WordPair
            The pair before.
        on : SimpleNamespace
            Controls of `pair_controls`, of the same cycle.
        """
        with m.If(on.takes):
            m.d.sync += [mine.eq(theirs) for mine, theirs in zip(self.first, other.first, strict=True)]
        for mine, theirs, clear in zip(self.words, other.raw, (on.apart, on.sums, on.sums), strict=True):
            with m.If(clear):
                m.d.sync += mine.eq(0)
            with m.Elif(on.takes):
                m.d.sync += mine.eq(theirs)

    def combine(self, x: Value, y: Value, on: SimpleNamespace, alone: int) -> list[Any]:
        """Assign x and y, combined or not; if not, `low` is x for `alone`, else y.

        Parameters
        ----------
        x, y : Value
            Words of 32 bits.
        on : SimpleNamespace
            Controls of `pair_controls`.
        alone : int
            Which word goes on where they are not combined: 1 for `x`.
        """
        zero = Const(0, 32)
        full = Signal(33, name=f"{self.words[0].name}_", attrs=INVERTS)
        total = full[1:]
        less = Mux(x[31] ^ y[31], x[31], total[31])
        chooses = less ^ ~on.least
        sums = on.combines & ~on.subtracts
        values = (Mux(sums, total, zero), Mux(sums, zero, x), Mux(sums, zero, y))
        self.raw = (total, x, y)
        return [
            full.eq(Cat(on.subtracts, x) + Cat(on.subtracts, y ^ on.subtracts.replicate(32))),
            *(word.eq(value) for word, value in zip(self.words, values, strict=True)),
            self.first[0].eq(Mux(on.combines, chooses, alone)),
            self.first[1].eq(Mux(on.combines, chooses, 0)),
        ]

    def _choice(self, first: Any) -> Value:
        total, x, y = self.words
        return total | Mux(first, x, y)

    def low(self) -> Value:
        """The first result."""
        return self._choice(self.first[0])

    def high(self) -> Value:
        """The second one."""
        return self._choice(self.first[1])
