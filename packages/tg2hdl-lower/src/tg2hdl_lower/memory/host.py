"""A design as its host sees it: control, variables, and the words of buffers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from amaranth import Shape
from amaranth.lib import stream, wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import DType, IRVariable
from tg2hdl_ir.analysis.ranges import bits_for
from tg2hdl_ir.records import OPTIONAL
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.memory.plan import MemoryPlan

__all__ = ["HostBuffer", "HostLoop", "HostShape", "variables_signature"]


def _shape(variable: IRVariable) -> Shape:
    """Shape of the input of a run-time variable."""
    width, is_signed = bits_for((min(variable.low, 0), max(variable.high, 0)))
    return Shape(width, is_signed)


def variables_signature(variables: Iterable[IRVariable]) -> wiring.Signature:
    """Run-time variables by name, as the host drives them; a value of the range until it does."""
    return wiring.Signature({v.name: Out(_shape(v), init=min(max(0, v.low), v.high)) for v in variables})


@dataclass(frozen=True)
class HostBuffer:
    """Words of a buffer that the host writes or reads.

    Parameters
    ----------
    name : str
        Of the memory.
    words : int
    width : int
        Bits of a word.
    writes, reads : bool
        Whether the host writes it, and reads it.
    latency : int
        Cycles from `raddr` to `rdata`.
    layout : Layout
        Word and lane of each element.
    dtype : DType
        Of an element.
    title, role : str
        Of the program's buffer.
    shape : tuple of int
        In the program.
    waits : bool
        Whether a write is held until `ready`.
    is_state : bool
        Whether runs continue from its contents.
    is_paced : bool
        Whether the host moves elements in their order, at any time but only while `open` is high.
    """

    name: str
    words: int
    width: int
    writes: bool
    reads: bool
    latency: int
    layout: Layout
    dtype: DType
    title: str = ""
    role: str = ""
    shape: tuple[int, ...] = ()
    waits: bool = False
    is_state: bool = False
    is_paced: bool = field(default=False, metadata=OPTIONAL)

    @classmethod
    def of(cls, memory: MemoryPlan) -> HostBuffer:
        """The buffer of a memory."""
        role = memory.role
        words = memory.layout.words
        return cls(
            memory.name,
            words,
            memory.word_width,
            role.host_writes,
            role.host_reads,
            memory.read_latency,
            memory.layout,
            memory.dtype,
            is_state=role.is_state,
        )

    @property
    def address_width(self) -> int:
        """Bits of a word address."""
        return max(1, (self.words - 1).bit_length())

    def signature(self, *, by_element: bool = False) -> wiring.Signature:
        """Ports of the host to the words.

        Parameters
        ----------
        by_element : bool
            Whether `wdata` is one element, which `wen` writes to the lanes whose bits are set.

        Members
        -------
        open, moves : In(1), Out(1)
            Only where the buffer is paced: whether the host may write or read the next element, and whether it does.
        """
        address = self.address_width
        members: dict[str, wiring.Member] = {}
        if self.writes:
            lanes = self.layout.lanes if by_element else 1
            width = self.dtype.bit_width if by_element else self.width
            members |= {"wen": Out(lanes), "waddr": Out(address), "wdata": Out(width)}
            if self.waits:
                members["ready"] = In(1)
        if self.reads:
            members |= {"raddr": Out(address), "rdata": In(self.width)}
        if self.is_paced:
            members |= {"open": In(1), "moves": Out(1)}
        return wiring.Signature(members)


@dataclass(frozen=True)
class HostLoop:
    """Runs that a design starts itself: the output of each is the input of the next one.

    Parameters
    ----------
    output, target : str
        Buffers of the output and of the input.
    counter : str, optional
        Run-time variable that counts the runs.
    most : int
        Most results of a start.
    results : str, optional
        Buffer of the results; None where they are a stream only.
    dtype : DType
        Of an element of the output as its memory has it.
    stop : DType
        Of an element of the output in the model.
    elements : int
        Of a result.
    gap : int
        Clock cycles from the end of a run to the start of the next one, or to the end of all.
    """

    output: str
    target: str
    counter: str | None
    most: int
    results: str | None
    dtype: DType
    stop: DType
    elements: int
    gap: int

    def format(self) -> str:
        """Source and destination, in one line."""
        counted = "" if self.counter is None else f", {self.counter} counts"
        return f"loop ({self.output} to {self.target} in {self.gap} cycles{counted}, at most {self.most} results)"

    def signature(self) -> wiring.Signature:
        """Ports, as the host drives them.

        Members
        -------
        limit : Out
            Most results of the next start; 0 for a run of its own.  Stable while busy, as `stops` and `stop`.
        stops, stop : Out(1), Out
            Whether the result all of whose elements equal `stop` is the last one.
        begins : In(1)
            One-cycle pulse at the start of each run but the first.
        count : In
            Results since the start.
        results : In(stream)
            Their elements, and `last` with the last one of all; the design waits until each is taken.
        """
        counts = self.most.bit_length()
        element = StructLayout({"element": self.dtype.bit_width, "last": 1})
        return wiring.Signature(
            {
                "limit": Out(counts),
                "stops": Out(1),
                "stop": Out(self.stop.bit_width),
                "begins": In(1),
                "count": In(counts),
                "results": In(stream.Signature(element)),
            }
        )


@dataclass(frozen=True)
class HostShape:
    """Interface between a host port and a design, or the share of it that one of several host ports serves.

    Parameters
    ----------
    control : bool
        Whether `start`, `done`, `busy`, `kernel_done` and the variables belong to it.
    kernels : int
        Cores of the design, with a bit of `kernel_done` each.
    variables : tuple of IRVariable
        Those that the host binds for a run.
    buffers : tuple of HostBuffer
        Those that the host reaches.
    order : tuple of int
        The cores of all kernels in the order in which they are done.
    inputs, outputs : tuple of str
        Buffers of the inputs and of the results, in the order of the program.
    program, identity : str
        Name of the program, and digits in base 16 that differ for another design; only where a port needs them.
    cycles : int
        Most clock cycles of a run; 0 where no port needs it.
    keeps_state : bool
        Whether a run depends on the runs before it.
    overlap : int
        Runs that may be under way at once: above 1, a run may start while others run, when `ready` is high.
    loop : HostLoop, optional
        Runs that the design starts itself.
    """

    control: bool
    kernels: int
    variables: tuple[IRVariable, ...]
    buffers: tuple[HostBuffer, ...]
    order: tuple[int, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    program: str = ""
    identity: str = ""
    cycles: int = 0
    keeps_state: bool = False
    overlap: int = 1
    loop: HostLoop | None = field(default=None, metadata=OPTIONAL)

    @classmethod
    def of(
        cls,
        memories: Iterable[MemoryPlan],
        variables: Iterable[IRVariable],
        order: Iterable[int],
    ) -> HostShape:
        """All of a design whose kernels are done in this order of their cores.

        Parameters
        ----------
        memories : iterable of MemoryPlan
            Those that the host does not reach are left out.
        variables : iterable of IRVariable
        order : iterable of int
            Number of the core of each run.
        """
        buffers = tuple(b for b in map(HostBuffer.of, memories) if b.writes or b.reads)
        order = tuple(order)
        return cls(True, 1 + max(order), tuple(variables), buffers, order)

    def without(self, served: HostShape) -> HostShape:
        """The interface that is left when a port serves some of it."""
        taken = {b.name: b for b in served.buffers}
        left = []
        for buffer in self.buffers:
            other = taken.get(buffer.name)
            if other is not None:
                buffer = replace(
                    buffer,
                    writes=buffer.writes and not other.writes,
                    reads=buffer.reads and not other.reads,
                )
            if buffer.writes or buffer.reads:
                left.append(buffer)
        return replace(self, control=self.control and not served.control, buffers=tuple(left))

    @property
    def longest_start(self) -> int:
        """Most clock cycles from a start to its end; 0 where no port needs it."""
        return self.cycles if self.loop is None else self.loop.most * (self.cycles + self.loop.gap)

    @property
    def streams(self) -> bool:
        """Whether runs may start while others run."""
        return self.overlap > 1

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to serve."""
        return not self.control and not self.buffers

    def signature(self, *, by_element: bool = False) -> wiring.Signature:
        """Ports, as the host drives them.

        Parameters
        ----------
        by_element : bool
            As in `HostBuffer.signature`.

        Members
        -------
        start : Out(1)
            Begins a run while idle or in the cycle of `done`; ignored at other times.
        done, busy : In(1)
            One-cycle pulse at the end of a run; from the cycle after `start` to that of `done`.
        ready : In(1)
            Only where runs overlap: a start in this cycle begins a run, in others it is ignored.  From the cycle
            after `start` on the host writes the inputs of the next run; it reads the results of a run from the cycle
            after `done` to the next `done`.
        kernel_done : In(1), array
            One-cycle pulse at the end of each run of a core.
        variables : Out(Signature)
            Run-time variables by name, stable while busy.
        loop : Out(Signature)
            Only where the design starts runs itself, see `HostLoop.signature`; `done` and `busy` are then those of all.
        buffers : Out(Signature)
            By name: `wen`, `waddr`, `wdata` write a word while idle; `rdata` follows `raddr` while idle.
        """
        members: dict[str, wiring.Member] = {}
        if self.control:
            members |= {"start": Out(1), "done": In(1), "busy": In(1)}
            members |= {"ready": In(1)} if self.streams else {}
            members["kernel_done"] = In(1).array(self.kernels)
            members["variables"] = Out(variables_signature(self.variables))
            members |= {} if self.loop is None else {"loop": Out(self.loop.signature())}
        members["buffers"] = Out(
            wiring.Signature({b.name: Out(b.signature(by_element=by_element)) for b in self.buffers})
        )
        return wiring.Signature(members)
