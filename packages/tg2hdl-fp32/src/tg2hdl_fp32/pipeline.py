"""One description of a datapath, any number of registers in it.

A datapath is written once as a chain of named values with possible cut points::

    p.product = p.x * p.y
    p.delay(6.0)
    p.cut()
    p.total = p.product + p.z

Reading ``p.z`` after a cut gives the value that belongs to the same operands: a value that is still
needed after an enabled cut is carried through registers; one that is not needed costs nothing.
"""

__all__ = ["Pipeline", "choose_cuts", "stages_for"]

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from amaranth.hdl import Const, Module, Signal, Value, ValueLike

from .errors import FloatParameterError

_INFINITE = float("inf")


class _Staged:
    """A named value and its delayed copies; ``copies[k]`` is `k` registers after the first."""

    def __init__(self, birth: int, first: Any) -> None:
        self.birth = birth
        self.copies = [first]


class Pipeline:
    """Collects the values of a datapath and puts registers at the chosen cuts.

    Parameters
    ----------
    module : Module
        Where the logic goes; ``module.submodules`` may be used by the datapath.
    cuts : sequence of int
        Indices of the enabled cut points, in the order in which the datapath calls :meth:`cut`.
    enable : Value
        Clock enable of all registers.
    domain : str
        Clock domain of the registers.
    """

    def __init__(
        self,
        module: Module,
        cuts: Sequence[int] = (),
        *,
        enable: ValueLike = 1,
        domain: str = "sync",
    ) -> None:
        self._cuts = frozenset(cuts)
        self._enable = Value.cast(enable)
        self._domain = domain
        self._values: dict[str, _Staged] = {}
        self._comb: list[Any] = []
        self._sync: list[Any] = []
        self._stage_of: dict[int, int] = {}
        self._passed = 0
        self._stage = 0
        self._delay = 0.0
        self._segments: list[float] = []
        self._module = module
        self._parallel = False
        self._prefix = ""

    # Called by a datapath.

    def add(self, name: str, component: Any) -> None:
        """Add a submodule of the datapath, such as a multiplier or a table.

        Parameters
        ----------
        name : str
            Of the submodule; the current scope is its prefix.
        component
            Its registers are not counted as stages.
        """
        self._module.submodules[self._prefix + name] = component

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Put `name` before the names of values and submodules, so that a datapath can be part of another one."""
        saved = self._prefix
        self._prefix += f"{name}_"
        yield
        self._prefix = saved

    @property
    def domain(self) -> str:
        """Clock domain of the registers."""
        return self._domain

    @property
    def enable(self) -> Value:
        """Clock enable of the registers."""
        return self._enable

    @property
    def stage(self) -> int:
        """Number of registers between the operands and this point."""
        return self._stage

    def delay(self, nanoseconds: float) -> None:
        """Add to the estimated delay of the logic since the last possible cut."""
        self._delay += nanoseconds

    def cut(self) -> None:
        """Mark a possible register position."""
        self._record()
        self._delay = 0.0
        if self._passed in self._cuts:
            self._stage += 1
        self._passed += 1

    def mark(self) -> int:
        """Return this point, for :meth:`beside`; it must be directly after a cut or at the start."""
        return self._passed

    @contextmanager
    def beside(self, mark: int) -> Iterator[None]:
        """Go back to `mark` to describe a path parallel to the one already described.

        Inside, :meth:`cut` steps through the cuts that the first path has made, and cannot go past them.
        """
        if self._parallel or not 0 <= mark <= self._passed:
            raise FloatParameterError(f"a path cannot start at cut {mark}; there are 0 to {self._passed}")
        saved = (self._passed, self._stage, self._delay)
        self._passed, self._stage, self._delay = mark, sum(c < mark for c in self._cuts), 0.0
        self._parallel = True
        yield
        if self._passed == saved[0]:
            saved = (saved[0], saved[1], max(saved[2], self._delay))
        else:
            self._record()
        self._parallel = False
        self._passed, self._stage, self._delay = saved

    def _record(self) -> None:
        if self._passed < len(self._segments):
            self._segments[self._passed] = max(self._segments[self._passed], self._delay)
        elif self._parallel:
            raise FloatParameterError(f"a path beside another has more than its {len(self._segments)} cuts")
        else:
            self._segments.append(self._delay)

    def __setitem__(self, name: str, value: ValueLike) -> None:
        """Name a value at the present stage; a name may be given again, to replace the value."""
        name = self._prefix + name
        flat = Value.cast(value)
        if isinstance(flat, Const):
            self._values[name] = _Staged(self._stage, value)
            return
        self._check_stage(name, flat)
        shape = value.shape() if hasattr(value, "shape") else flat.shape()
        signal = Signal(shape, name=name, reset_less=True)
        self._comb.append(Value.cast(signal).eq(flat))
        self._stage_of[id(Value.cast(signal))] = self._stage
        self._values[name] = _Staged(self._stage, signal)

    def __getitem__(self, name: str) -> Any:
        """Return a named value at the present stage."""
        name = self._prefix + name
        if name not in self._values:
            raise FloatParameterError(f"the datapath reads {name!r} before it is set")
        staged = self._values[name]
        first = staged.copies[0]
        if isinstance(Value.cast(first), Const):
            return first
        while len(staged.copies) <= self._stage - staged.birth:
            register = Signal(first.shape(), name=f"{name}_d{len(staged.copies)}", reset_less=True)
            self._sync.append(Value.cast(register).eq(Value.cast(staged.copies[-1])))
            self._stage_of[id(Value.cast(register))] = staged.birth + len(staged.copies)
            staged.copies.append(register)
        return staged.copies[self._stage - staged.birth]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        elif hasattr(type(self), name):
            raise FloatParameterError(f"a value of the datapath cannot be called {name!r}")
        else:
            self[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def wire(self, value: ValueLike) -> Signal:
        """Return a wire with a value of the present stage, so that using it twice costs its logic once."""
        flat = Value.cast(value)
        self._check_stage("wire", flat)
        signal = Signal(flat.shape(), name="wire")
        self._comb.append(signal.eq(flat))
        self._stage_of[id(signal)] = self._stage
        return signal

    def carry(self, value: Any, birth: int) -> Any:
        """Delay a value that belongs to stage `birth` up to the present stage.

        Parameters
        ----------
        value
            Of any shape, valid in stage `birth`.
        birth : int
            At most the present stage.
        """
        staged = _Staged(birth, value)
        name = f"carried{len(self._values)}"
        self._values[self._prefix + name] = staged
        return self[name]

    def adopt(self, signal: Signal) -> Any:
        """Declare that a signal driven elsewhere (by a submodule) belongs to the present stage."""
        self._stage_of[id(Value.cast(signal))] = self._stage
        return signal

    def drive(self, statement: Any) -> None:
        """Add a combinational assignment, such as to an input of a submodule."""
        self._comb.append(statement)

    def state(self, register: Signal, value: ValueLike) -> None:
        """Load an adopted register, whose output belongs to the present stage as `value` does, when enabled.

        Parameters
        ----------
        register : Signal
            Returned by `adopt`.
        value : ValueLike
            Next value.
        """
        self._sync.append(register.eq(value))

    # Called by the core.

    def finish(self) -> None:
        """Emit the collected logic."""
        self._module.d.comb += self._comb
        if self._sync:
            with self._module.If(self._enable):
                self._module.d[self._domain] += self._sync

    @property
    def segments(self) -> tuple[float, ...]:
        """Estimated delays in ns between the possible cuts; the last one ends at the result."""
        return (*self._segments, self._delay)

    def _check_stage(self, name: str, value: Value) -> None:
        for signal in value._rhs_signals():
            stage = self._stage_of.get(id(signal), self._stage)
            if stage != self._stage:
                raise FloatParameterError(
                    f"{name!r} at stage {self._stage} uses {signal.name!r} of stage {stage}; read it as p.{signal.name}"
                )


def choose_cuts(segments: Sequence[float], stages: int) -> tuple[int, ...]:
    """Return the indices of the `stages` cuts that make the longest segment shortest.

    Parameters
    ----------
    segments : sequence of float
        Delays in ns between the possible cuts, one more than there are cuts.
    stages : int
        Number of registers to place.
    """
    count = len(segments)
    if not 0 <= stages < count:
        raise FloatParameterError(f"{stages} stages are not possible; this datapath takes 0 to {count - 1}")
    prefix = [0.0, *accumulate(segments)]
    # best[j] is the cost of the first j segments: the longest stage, then the sum of squares as a tie-break.
    best: list[tuple[float, float]] = [(prefix[j], prefix[j] ** 2) for j in range(count + 1)]
    choice: list[list[int]] = []
    for _ in range(stages):
        following: list[tuple[float, float]] = [(_INFINITE, _INFINITE)] * (count + 1)
        origin = [0] * (count + 1)
        for end in range(1, count + 1):
            for start in range(1, end):
                length = prefix[end] - prefix[start]
                cost = (max(best[start][0], length), best[start][1] + length**2)
                if cost < following[end]:
                    following[end], origin[end] = cost, start
        best = following
        choice.append(origin)
    cuts = []
    end = count
    for origin in reversed(choice):
        end = origin[end]
        cuts.append(end - 1)
    return tuple(reversed(cuts))


def stages_for(segments: Sequence[float], period: float) -> int:
    """Return the smallest number of registers that keeps every stage within `period` ns.

    A single segment longer than that sets the limit instead.

    Parameters
    ----------
    segments : sequence of float
        Delays between the places where a register may be, in ns, in the order of the datapath.
    period : float
        In ns.
    """
    limit = max(period, *segments)
    stages, length = 0, 0.0
    for segment in segments:
        if length + segment > limit + 1e-9:
            stages, length = stages + 1, 0.0
        length += segment
    return stages
