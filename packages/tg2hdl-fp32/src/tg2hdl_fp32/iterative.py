"""Small divide and square root: one bit of the result in a cycle, one set of operands at a time."""

__all__ = ["IterativeDiv", "IterativeSqrt"]

from abc import abstractmethod
from typing import Any, ClassVar

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .core import FLAGS
from .errors import FloatParameterError, FloatTypeError, one_of
from .format import FP32, Format
from .modes import RoundingMode
from .pipeline import Pipeline
from .rounding import round_and_pack
from .unpacked import Unpacked, unpack

#: Registers of the rounder.
_ROUNDER = 2


class _Iterative(wiring.Component):
    """One operation at a time, with a fixed latency.

    Parameters
    ----------
    format : Format
        Format of operands and result.
    rounding : RoundingMode or "dynamic"
        Rounding at build time, or at run time through port ``rm``.
    flags : bool
        Add the output ``flags``.
    subnormals : bool
        ``False`` reads subnormal operands as zero and returns zero for tiny results; saves the cycles of
        their normalization.
    domain : str
        Clock domain.

    Attributes
    ----------
    latency, ii : int
        Cycles with `en` high from `start` to the result, which stays until the next `start`; equal.

    Members
    -------
    a, b : In(unsigned)
        Operands, read in the cycle of `start`.
    rm : In(3)
        Rounding mode, held until the result is there; only with ``rounding="dynamic"``.
    start : In(1)
        Begin.
    en : In(1)
        Clock enable.
    result : Out(unsigned)
        Result.
    flags : Out(FLAGS)
        Exception flags; only with ``flags=True``.
    """

    operation: ClassVar[str]
    operands: ClassVar[tuple[str, ...]]
    # Reading the latency of a core that is never built is a normal use; Amaranth would warn.
    _MustUse__silence = True

    def __init__(
        self,
        format: Format = FP32,
        *,
        rounding: RoundingMode | str = RoundingMode.RNE,
        flags: bool = False,
        subnormals: bool = True,
        domain: str = "sync",
    ) -> None:
        if not isinstance(format, Format):
            raise FloatTypeError(f"format must be a Format, such as FP32, not {format!r}")
        if rounding != "dynamic" and not isinstance(rounding, RoundingMode):
            raise FloatParameterError(
                f"unknown rounding {rounding!r}; use 'dynamic' or one of "
                f"{one_of(f'RoundingMode.{m}' for m in RoundingMode)}"
            )
        self.format = format
        self.rounding = rounding
        self.has_flags = flags
        self.subnormals = subnormals
        self.domain = domain
        self.dynamic = rounding == "dynamic"
        self.normalizing = format.significand - 1 if subnormals else 0
        self.latency = self.ii = 1 + self.normalizing + self.steps + _ROUNDER
        members: dict[str, Any] = {name: In(format.width) for name in self.operands}
        if self.dynamic:
            members["rm"] = In(3)
        members |= {"start": In(1), "en": In(1, init=1), "result": Out(format.width)}
        if flags:
            members["flags"] = Out(FLAGS)
        super().__init__(members)

    def operand_shapes(self) -> tuple[Format, ...]:
        """Shapes of the operands."""
        return tuple(self.format for _ in self.operands)

    def result_shape(self) -> Format:
        """Shape of the result."""
        return self.format

    @property
    @abstractmethod
    def steps(self) -> int:
        """Cycles of the recurrence."""

    @abstractmethod
    def recurrence(self, m: Module, normalizing: Value) -> dict[str, Value]:
        """Describe registers and steps, and return the arguments of the rounder."""

    def elaborate(self, platform: Any) -> Module:
        """Build control, recurrence and rounder."""
        m = Module()
        if self.normalizing:
            left = Signal(range(self.normalizing + 1), reset_less=True)
            normalizing = left != 0
            with m.If(self.en):
                with m.If(self.start):
                    m.d[self.domain] += left.eq(self.normalizing)
                with m.Elif(normalizing):
                    m.d[self.domain] += left.eq(left - 1)
        else:
            normalizing = Const(0, 1)
        arguments = self.recurrence(m, normalizing)
        p = Pipeline(m, range(_ROUNDER), enable=self.en, domain=self.domain)
        static = self.rounding.value if isinstance(self.rounding, RoundingMode) else 0
        p.rm = self.rm if self.dynamic else Const(static, 3)
        round_and_pack(p, self.format, flags=self.has_flags, subnormals=self.subnormals, **arguments)
        m.d.comb += self.result.eq(p.result)
        if self.has_flags:
            m.d.comb += self.flags.eq(p.flags)
        p.finish()
        return m

    def _hold(self, m: Module, **values: Value) -> dict[str, Value]:
        """Keep values of the cycle of `start`."""
        held: dict[str, Value] = {}
        for name, value in values.items():
            held[name] = Signal.like(Value.cast(value), name=name, reset_less=True)
            with m.If(self.en & self.start):
                m.d[self.domain] += held[name].eq(value)
        return held

    def _unpack(self) -> list[Unpacked]:
        return [
            unpack(self.format, getattr(self, name), subnormals=self.subnormals) for name in self.operands
        ]


class IterativeDiv(_Iterative):
    """``a / b``, correctly rounded: restoring division, one bit in a cycle.

    A quotient that is subnormal stops earlier, so that it needs no shift: one counter holds the bits that are
    still possible above the smallest subnormal, and ends as the exponent.
    """

    operation = "div"
    operands = ("a", "b")

    @property
    def steps(self) -> int:
        """Cycles of the recurrence: the significand, a guard bit, and one when the quotient is below 1."""
        return self.format.significand + 2

    def recurrence(self, m: Module, normalizing: Value) -> dict[str, Value]:
        """Normalize both operands bit by bit, then subtract and shift.

        Parameters
        ----------
        m : Module
            Gets the registers and their logic.
        normalizing : Value
            Whether operands are still being normalized, one bit a cycle.
        """
        f = self.format
        n = f.significand
        x, y = self._unpack()
        invalid = x.is_zero & y.is_zero | x.is_inf & y.is_inf
        held = self._hold(
            m,
            sign=x.sign ^ y.sign,
            nan=x.is_nan | y.is_nan | invalid,
            inf=x.is_inf | y.is_zero,
            zero=x.is_zero | y.is_inf,
            invalid=x.is_signaling | y.is_signaling | invalid,
            divide_by_zero=y.is_zero & ~x.is_zero & ~x.is_inf & ~x.is_nan,
        )
        rest = Signal(n + 1, reset_less=True)
        divisor = Signal(n, reset_less=True)
        quotient = Signal(n + 1, reset_less=True)
        bits = max(f.exponent + 3, (f.max_exponent_field + f.bias + 2 * n).bit_length() + 1)
        room = Signal(signed(bits), reset_less=True)
        trial = Signal(n + 2)
        m.d.comb += trial.eq(rest - divisor)
        left_a, left_b = normalizing & ~rest[n - 1], normalizing & ~divisor[n - 1]
        stopped = quotient[-1] | room[-1] | ~room.any()
        sync = m.d[self.domain]
        with m.If(self.en):
            with m.If(self.start):
                sync += [rest.eq(x.significand), divisor.eq(y.significand), quotient.eq(0)]
                sync += room.eq(x.exponent - y.exponent + (f.bias + n))
            with m.Elif(normalizing):
                sync += [
                    rest.eq(Mux(left_a, rest << 1, rest)),
                    divisor.eq(Mux(left_b, divisor << 1, divisor)),
                ]
                sync += room.eq(
                    room + Cat(left_a ^ left_b, (left_a & ~left_b).replicate(bits - 1)).as_signed()
                )
            with m.Elif(~stopped):
                sync += rest.eq(Mux(trial[-1], rest, trial) << 1)
                sync += quotient.eq(Cat(~trial[-1], quotient))
                sync += room.eq(room - 1)
        return held | {
            "exponent": (Mux(room[-1], 0, room) + 1).as_signed(),
            "significand": quotient[1:],
            "guard": quotient[0],
            "sticky": rest.any(),
        }


class IterativeSqrt(_Iterative):
    """``sqrt(a)``, correctly rounded: restoring square root, one bit in a cycle.

    A subnormal root stops earlier, so that it needs no shift: the exponent counts down to the smallest subnormal.
    """

    operation = "sqrt"
    operands = ("a",)

    @property
    def steps(self) -> int:
        """Cycles of the recurrence: the significand and a guard bit."""
        return self.format.significand + 1

    def recurrence(self, m: Module, normalizing: Value) -> dict[str, Value]:
        """Normalize bit by bit, then subtract the root so far and shift by two.

        Parameters
        ----------
        m : Module
            Gets the registers and their logic.
        normalizing : Value
            Whether the operand is still being normalized, one bit a cycle.
        """
        f = self.format
        n = f.significand
        (x,) = self._unpack()
        negative = x.sign & ~x.is_zero
        held = self._hold(
            m,
            sign=x.sign,
            nan=x.is_nan | negative,
            inf=x.is_inf,
            zero=x.is_zero,
            invalid=x.is_signaling | negative & ~x.is_nan,
        )
        rest = Signal(n + 3, reset_less=True)
        radicand = Signal(n + 1, reset_less=True)
        root = Signal(n + 1, reset_less=True)
        # Where roots can be subnormal, twice the bits that are still possible above the smallest subnormal.
        counts = self.subnormals and f.most_root_places > 0
        shift = 2 * (f.bias + n) if counts else 0
        bits = f.exponent + 2 + counts * n.bit_length()
        power = Signal(signed(bits), reset_less=True)
        stopped = root[-1] | ~power[1:].any() if counts else root[-1]
        # Two bits of the radicand at a time; an odd exponent takes them one place further to the left.
        doubled = Mux(power[0], radicand, radicand >> 1)
        first = Signal(reset_less=True)
        source = Mux(first, doubled, radicand)[: n + 1]
        trial = Signal(n + 4)
        shifted = Cat(source[-2:], rest)[: n + 3]
        m.d.comb += trial.eq(shifted - Cat(Const(1, 2), root)[: n + 3])
        sync = m.d[self.domain]
        with m.If(self.en):
            with m.If(self.start):
                sync += [rest.eq(0), radicand.eq(Cat(Const(0, 1), x.significand)), root.eq(0), first.eq(1)]
                sync += power.eq(x.exponent - f.bias + shift)
            with m.Elif(normalizing), m.If(~radicand[-1]):
                sync += [radicand.eq(radicand << 1), power.eq(power - 1)]
            with m.Elif(~stopped):
                sync += rest.eq(Mux(trial[-1], shifted, trial))
                if counts:
                    sync += power.eq(power - 2)
                sync += root.eq(Cat(~trial[-1], root))
                sync += [radicand.eq(source << 2), first.eq(0)]
        return held | {
            "exponent": ((power >> 1) + (1 if counts else f.bias)).as_signed(),
            "significand": root[1:],
            "guard": root[0],
            "sticky": rest.any(),
        }
