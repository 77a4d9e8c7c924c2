"""Base class of the cores: parameters, ports and the placement of pipeline registers."""

__all__ = ["FLAGS", "TARGETS", "Core"]

from abc import abstractmethod
from itertools import pairwise
from typing import Any, ClassVar

from amaranth.hdl import Const, Module, Shape, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .errors import FloatParameterError, FloatTypeError, one_of
from .format import FP32, Format
from .modes import RoundingMode
from .pipeline import Pipeline, choose_cuts, stages_for
from .timing import PROFILES, REGISTER

#: ``ecp5_model`` has the registers of ``ecp5`` where the hard blocks have them, in portable logic for simulation.
TARGETS = ("generic", "ecp5", "ecp5_model", "ice40")

#: Layout of the exception flags of IEEE 754, in the bit order of RISC-V's ``fflags``.
FLAGS = data.StructLayout({"inexact": 1, "underflow": 1, "overflow": 1, "divide_by_zero": 1, "invalid": 1})


class Core(wiring.Component):
    """A floating-point operation with a fixed latency.

    A subclass lists its operands in :attr:`operands` and writes :meth:`datapath`, which reads ``p.a``, ``p.b``,
    ``p.c`` and ``p.rm``, and sets ``p.result`` (and ``p.flags``, of layout :data:`FLAGS`, when ``self.flags``).

    Parameters
    ----------
    format : Format
        Format of the operands and, unless the operation says otherwise, of the result.
    profile : str
        ``comb`` has no registers, ``small``, ``balanced`` and ``fast`` allow ever shorter stages.
    stages : int
        Number of pipeline registers, in place of a profile.
    rounding : RoundingMode or "dynamic"
        Rounding at build time, or at run time through port ``rm``.
    flags : bool
        Add the output ``flags`` with the exceptions of the operation (tininess is detected before rounding).
    subnormals : bool
        ``False`` reads subnormal operands as zero and returns zero for tiny results, which saves area.
    saturate : bool
        A finite result beyond the largest number becomes that number, whatever the rounding, and not an infinity (or
        NaN, in a format without infinities); infinite operands and division by zero still give these.
    target : str
        ``generic`` is portable; ``ecp5`` instantiates hard blocks with their registers.
    domain : str
        Clock domain of the registers.

    Attributes
    ----------
    latency : int
        Cycles with `en` high from operands to result.
    ii : int
        Cycles from one set of operands to the next.

    Members
    -------
    a, b, c : In(unsigned)
        Operands, as bit patterns.
    rm : In(3)
        Rounding mode, a value of :class:`RoundingMode`; only with ``rounding="dynamic"``.
    en : In(1)
        Clock enable: while low, nothing moves.
    result : Out(unsigned)
        Result, as a bit pattern.
    flags : Out(FLAGS)
        Exception flags; only with ``flags=True``.
    """

    operation: ClassVar[str]
    #: Class of the format; with another one than `Format`, the core gives the shapes of operands and result itself.
    format_type: ClassVar[type[Any]] = Format
    operands: tuple[str, ...] = ("a", "b")
    #: Of its results, in one line.
    accuracy: ClassVar[str] = "unknown"
    #: The operation rounds: a rounding mode applies.
    rounds: ClassVar[bool] = True
    #: The result may overflow: saturation applies.
    overflows: ClassVar[bool] = False
    ii: int = 1
    # Reading the latency of a core that is never built is a normal use, and so is refusing one; Amaranth would warn.
    _MustUse__silence = True

    def __init__(
        self,
        format: Format = FP32,
        *,
        profile: str | None = None,
        stages: int | None = None,
        rounding: RoundingMode | str = RoundingMode.RNE,
        flags: bool = False,
        subnormals: bool = True,
        saturate: bool = False,
        target: str = "generic",
        domain: str = "sync",
    ) -> None:
        if not isinstance(format, self.format_type):
            example = ", such as FP32" if self.format_type is Format else ""
            raise FloatTypeError(f"format must be a {self.format_type.__name__}{example}, not {format!r}")
        if profile is not None and stages is not None:
            raise FloatParameterError(
                f"give a profile or a number of stages, not both ({profile!r} and {stages})"
            )
        if profile is not None and profile not in PROFILES:
            raise FloatParameterError(f"unknown profile {profile!r}; use one of {one_of(PROFILES)}")
        if target not in TARGETS:
            raise FloatParameterError(f"unknown target {target!r}; use one of {one_of(TARGETS)}")
        if rounding != "dynamic" and not isinstance(rounding, RoundingMode):
            raise FloatParameterError(
                f"unknown rounding {rounding!r}; use 'dynamic' or one of "
                f"{one_of(f'RoundingMode.{m}' for m in RoundingMode)}"
            )
        if saturate and not self.overflows:
            raise FloatParameterError(
                f"{type(self).__name__} has no overflow to saturate; use saturate=False"
            )
        self.format: Format = format
        self.rounding = rounding
        self.subnormals = subnormals
        self.saturate = saturate
        self.target = target
        self.domain = domain
        self.has_flags = flags
        self.profile = profile if profile is not None else "balanced" if stages is None else "custom"
        self._cuts = self._place_cuts(stages)
        members: dict[str, Any] = {
            name: In(Shape.cast(shape))
            for name, shape in zip(self.operands, self.operand_shapes(), strict=True)
        }
        if self.dynamic:
            members["rm"] = In(3)
        members |= {"en": In(1, init=1), "result": Out(Shape.cast(self.result_shape()))}
        if flags:
            members["flags"] = Out(FLAGS)
        super().__init__(members)

    @property
    def latency(self) -> int:
        """Cycles from operands to result."""
        return len(self._cuts)

    @property
    def dynamic(self) -> bool:
        """Whether the rounding mode is an input."""
        return self.rounding == "dynamic"

    @property
    def stage_delays(self) -> tuple[float, ...]:
        """Estimated delay of every stage in ns, registers included."""
        bounds = [0, *(c + 1 for c in self._cuts), len(self._segments)]
        return tuple(sum(self._segments[i:j]) + REGISTER for i, j in pairwise(bounds))

    def operand_shapes(self) -> tuple[Shape | Format, ...]:
        """Shapes of the operands; the format unless an operation overrides it."""
        return tuple(self.format for _ in self.operands)

    def result_shape(self) -> Shape | Format:
        """Shape of the result; the format unless an operation overrides it."""
        return self.format

    def tuned_stages(self, profile: str) -> int | None:
        """Return a measured number of stages for a profile, in place of the estimate, or None."""
        return None

    @abstractmethod
    def datapath(self, p: Pipeline) -> None:
        """Describe the operation, from operands to result."""

    def elaborate(self, platform: Any) -> Module:
        """Build the datapath with its registers."""
        m = Module()
        p = Pipeline(m, self._cuts, enable=self.en, domain=self.domain)
        for name in self.operands:
            p[name] = getattr(self, name)
        p.rm = self.rm if self.dynamic else Const(self._static_mode(), 3)
        self.datapath(p)
        m.d.comb += self.result.eq(p.result)
        if self.has_flags:
            m.d.comb += self.flags.eq(p.flags)
        p.finish()
        return m

    def _static_mode(self) -> int:
        return self.rounding.value if isinstance(self.rounding, RoundingMode) else 0

    def _place_cuts(self, stages: int | None) -> tuple[int, ...]:
        # A dry run of the datapath finds the possible cuts and the delays between them.
        module = Module()
        trial = Pipeline(module)
        for name, shape in zip(self.operands, self.operand_shapes(), strict=True):
            trial[name] = _port(name, Shape.cast(shape))
        trial.rm = _port("rm", unsigned(3)) if self.dynamic else Const(self._static_mode(), 3)
        self.datapath(trial)
        _discard(module)
        self._segments = trial.segments
        if stages is None:
            if self.profile == "comb":
                return ()
            tuned = self.tuned_stages(self.profile)
            stages = stages_for(self._segments, PROFILES[self.profile] - REGISTER) if tuned is None else tuned
        if not isinstance(stages, int) or isinstance(stages, bool):
            raise FloatTypeError(f"stages must be an int, not {stages!r}")
        if not 0 <= stages < len(self._segments):
            raise FloatParameterError(
                f"{type(self).__name__} of {self.format} has no build with {stages} stages; "
                f"use 0 to {len(self._segments) - 1}"
            )
        return choose_cuts(self._segments, stages)


def _port(name: str, shape: Shape) -> Any:
    return Signal(shape, name=name)


def _discard(module: Module) -> None:
    # Amaranth warns about elaboratables that nothing uses; those of a dry run are meant to be dropped.
    submodules = [*module._anon_submodules, *module._named_submodules.values()]
    for item in (module, *(entry[0] if isinstance(entry, tuple) else entry for entry in submodules)):
        item._MustUse__silence = True
