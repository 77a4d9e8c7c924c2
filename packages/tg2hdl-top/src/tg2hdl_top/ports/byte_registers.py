"""The register map behind a link, whose words come and go byte by byte."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory

from tg2hdl_lower import HostShape
from tg2hdl_top.ports.element_bytes import ElementBytes
from tg2hdl_top.ports.elements import ElementWriter, add_writers
from tg2hdl_top.ports.run_state import RunState
from tg2hdl_top.register_map import MAGIC, VERSION, AccessCode, RegisterMap

__all__ = ["COUNTERS", "ByteRegisters"]

COUNTERS = ("RUNS", "LINK_ERRORS", "STALLS")
"""Registers that are bytes of the memory; an access adds to them byte by byte."""
_PLACES = 64
"""Bytes of the memory for registers."""


class ByteRegisters:
    """Serves the register map of a design to a master that moves words byte by byte.

    One memory holds the description, the registers that are constant, and the counters.  The signals that the master
    drives are combinational, and low unless it sets them.

    Parameters
    ----------
    m : Module
        Gets the statements.
    design : interface
        Of ``serves.signature(by_element=True)``.
    serves : HostShape

    Attributes
    ----------
    address, index, write : Signal
        Byte address of a word, byte of the word, and direction: registers of the master.
    waits, refusal : Signal
        Whether the access has to wait for the end of a run; else its code of `AccessCode`.  A cycle after `address`.
    begin : Signal
        Begins the access of a word.
    byte_in, put, full : Signal
        A byte of a write, which the master gives unless `full`.
    is_register, commit, verdict : Signal
        Whether the word written is a register, which changes with `commit`; its code of `AccessCode`.
    byte_out, valid, get : Signal
        A byte of a read, and that it is there; the master goes to the next one, and changes `index` as well.
    fresh, compare : Signal
        `compare` compares `byte_in` with the byte of the number of runs that `index` had in the cycle before; `fresh`
        forgets earlier ones.
    reads_memory, counter, add, amount, carry, clear : Signal
        Unless `reads_memory`, the byte `index` of a counter is read, and two cycles after that `add` adds `amount` to
        it; `carry` remains.  `clear` makes the byte zero.
    state : RunState
    """

    def __init__(self, m: Module, design: Any, serves: HostShape) -> None:
        self.map = RegisterMap(serves)
        self._places = {register.name: register.address for register in self.map.registers}
        windows = self.map.windows
        self.address, self.index, self.write = Signal(self.map.address_bits), Signal(2), Signal()
        self.waits, self.refusal, self.begin = Signal(), Signal(3), Signal()
        self.byte_in, self.put, self.full = Signal(8), Signal(), Signal()
        self.is_register, self.commit, self.verdict = Signal(), Signal(), Signal(3)
        self.byte_out, self.valid, self.get = Signal(8), Signal(), Signal()
        self.reads_memory, self.fresh, self.compare = Signal(), Signal(), Signal()
        self.counter, self.add, self.amount, self.carry = Signal(2), Signal(), Signal(8), Signal()
        self.clear = Signal()
        self.state = RunState(m, design, serves, len(windows), self._places)
        address, index, state = self.address, self.index, self.state

        # Decoded from registers, a cycle after the address.
        hit, first = Signal(max(1, len(windows))), Signal()
        m.d.sync += [
            hit.eq(Cat(_within(address, w.address, w.span) for w in windows)),
            first.eq(_any(address == w.address for w in windows)),
        ]
        writers, self.full = add_writers(m, [w.buffer for w in windows], design.buffers)
        readers = self._readers(m, design)
        writable, readable = _any(hit[n] for n in writers), _any(hit[n] for n in readers)
        known, memory = self._memory(m)

        # Where the buffer goes on that is accessed.
        write_at, read_at = Signal.like(address), Signal.like(address)
        write_open, read_open = Signal(), Signal()
        is_open = Mux(self.write, write_open & (address == write_at), read_open & (address == read_at))
        in_order = first | is_open
        kept = _any(hit[n] for n, w in enumerate(windows) if w.buffer.is_state)
        m.d.comb += [
            self.is_register.eq(~writable),
            self.waits.eq(state.occupied & Mux(self.write, address != self._places["ERROR"], readable)),
        ]
        with m.If(self.write), m.If(writable & ~in_order):
            m.d.comb += self.refusal.eq(AccessCode.ORDER)
        with m.Elif(readable):
            with m.If(~state.result & ~kept):
                m.d.comb += self.refusal.eq(AccessCode.EARLY)
            with m.Elif(~in_order):
                m.d.comb += self.refusal.eq(AccessCode.ORDER)
        with m.Elif(~known):
            m.d.comb += self.refusal.eq(AccessCode.ADDRESS)

        # Bytes of an element: 1, 2, 4 or 8 that follow one another.
        size = Signal(2)
        for n, window in enumerate(windows):
            with m.If(hit[n]):
                m.d.comb += size.eq(window.element_bytes.bit_length() - 1)
        whole = Signal()
        m.d.comb += whole.eq(
            (index | Mux(size == 0, 3, Mux(size == 1, 2, 0))).all() & ((size != 3) | address[2])
        )
        with m.If(self.begin):
            with m.If(self.write & writable):
                m.d.sync += [write_at.eq(address + 4), write_open.eq(1)]
                with m.If(first):
                    m.d.comb += [w.restart.eq(hit[n]) for n, w in writers.items()]
                    m.d.sync += state.partial.eq(state.partial | hit)
            with m.If(~self.write & readable):
                m.d.sync += [read_at.eq(address + 4), read_open.eq(1)]
                with m.If(first):
                    m.d.comb += [r.restart.eq(hit[n]) for n, r in readers.items()]
        self._write(m, writers, hit, whole, write_open)
        with m.If(self.commit & self.is_register & state.starts(address)):
            m.d.sync += read_open.eq(0)

        # A byte of a buffer is there some cycles after its element, or a cycle after its index.
        settling = Signal(range(1 + max((r.delay for r in readers.values()), default=2)))
        slowest = max((r.delay for r in readers.values()), default=2)
        step = self.get & whole & read_open
        m.d.comb += self.valid.eq(settling == 0)
        with m.If((self.begin & first) | (step & readable)):
            m.d.sync += settling.eq(slowest)
        with m.Elif(self.get):
            m.d.sync += settling.eq(Mux(readable, 1, 2))
        with m.Elif(self.begin & ~settling[1:].any()):
            m.d.sync += settling.eq(1)
        with m.Elif(settling != 0):
            m.d.sync += settling.eq(settling - 1)
        found = reduce(or_, (Mux(hit[n], r.byte, 0) for n, r in readers.items()), Const(0, 8))
        m.d.sync += self.byte_out.eq(Mux(readable, Mux(read_open, found, 0), memory))
        for n, r in readers.items():
            m.d.comb += [r.next.eq(self.get & hit[n]), r.step.eq(step & hit[n])]
        with m.If(step & _any(hit[n] & r.last for n, r in readers.items())):
            m.d.sync += read_open.eq(0)

    def _write(
        self,
        m: Module,
        writers: dict[int, ElementWriter],
        hit: Value,
        whole: Value,
        write_open: Signal,
    ) -> None:
        """Bytes to elements, and words to registers."""
        state, windows = self.state, self.map.windows
        has_words = bool(self.map.variables or self.map.loop)
        longest = max([4 * has_words, *(windows[n].element_bytes - 1 for n in writers)], default=0)
        before = Signal(8 * longest)  # the bytes before, the last one at the top
        stale = Signal()
        with m.If(self.put):
            m.d.sync += before.eq(Cat(before, self.byte_in)[8:])
        # Both bytes come from memories, so that they are compared a cycle later.
        differs, earlier = Signal(), Signal()
        given, counted, compared = Signal(8), Signal(8), Signal()
        m.d.sync += [given.eq(self.byte_in), counted.eq(self._data), compared.eq(self.compare)]
        m.d.comb += [differs.eq(compared & (given != counted)), stale.eq(earlier | differs)]
        with m.If(differs):
            m.d.sync += earlier.eq(1)
        with m.If(self.fresh):
            m.d.sync += [earlier.eq(0), compared.eq(0)]
        so_far = Cat(before, self.byte_in)
        put = self.put & whole & write_open
        for n, w in writers.items():
            element = so_far[len(so_far) - 8 * windows[n].element_bytes :]
            m.d.comb += [w.valid.eq(put & hit[n]), w.element.eq(element)]
        with m.If(put & _any(hit[n] & w.last for n, w in writers.items())):
            m.d.sync += [state.partial.eq(state.partial & ~hit), write_open.eq(0)]

        def word(register: Value) -> Value:
            return before[-32:]

        def answer(code: int) -> None:
            m.d.comb += self.verdict.eq(code)
            state.refuse(m, code)

        with m.If(self.commit & self.is_register):
            state.write(m, self.address, word, stale, answer)

    def _readers(self, m: Module, design: Any) -> dict[int, ElementBytes]:
        found = {}
        for n, window in enumerate(self.map.windows):
            if window.buffer.reads:
                reader = ElementBytes(window.buffer, window.element_bytes)
                m.submodules[f"read_{window.buffer.name}"] = reader
                host = getattr(design.buffers, window.buffer.name)
                m.d.comb += [host.raddr.eq(reader.raddr), reader.rdata.eq(host.rdata)]
                found[n] = reader
        return found

    def _memory(self, m: Module) -> tuple[Value, Value]:
        """Whether the word of the address before is a register or of the description; its byte, two cycles later."""
        identity = int(self.map.serves.identity or "0", 16)
        constants = {
            "MAGIC": MAGIC,
            "VERSION": VERSION,
            "ID_LOW": identity & 0xFFFFFFFF,
            "ID_HIGH": identity >> 32,
            "DESCRIPTION": self.map.description_address,
            "DESCRIPTION_BYTES": len(self.map.description()),
        }
        text = self.map.description()
        span = 1 << (len(text) - 1).bit_length()
        base = span - _PLACES if len(text) + _PLACES <= span else max(span, _PLACES)
        content = bytearray(text.ljust(base + _PLACES, b" "))
        content[base:] = bytes(_PLACES)
        for name, value in constants.items():
            place = base + self._places[name]
            content[place : place + 4] = value.to_bytes(4, "little")
        m.submodules.words = memory = Memory(
            shape=8, depth=len(content), init=content, attrs={"ram_style": "block"}
        )
        read, written = memory.read_port(), memory.write_port()
        self._data = read.data
        address = self.address
        texts = address >= self.map.description_address
        upper = Const(base // _PLACES, len(read.addr) - 6)
        place = Mux(texts, address[: span.bit_length() - 1], Cat(address[:6], upper))
        counters = Signal(4)  # of the word
        with m.Switch(self.counter):
            for n, name in enumerate(COUNTERS):
                with m.Case(n):
                    m.d.comb += counters.eq(self._places[name] >> 2)
        counted = Cat(Const(0, 2), counters, upper)
        place = Mux(self.reads_memory, place, counted)
        held = Signal(8)  # the adder would be too far behind the memory
        total = held + self.amount
        m.d.sync += held.eq(read.data)
        m.d.comb += [
            read.addr.eq(Cat(self.index, place[2:])),
            written.addr.eq(read.addr),
            written.data.eq(Mux(self.clear, 0, total)),
            written.en.eq(self.add | self.clear),
            self.carry.eq(total[8]),
        ]

        values = self.state.values
        here = Signal(len(values), name="register_hits")
        m.d.sync += here.eq(Cat(address == self._places[name] for name in values))
        live, changing, known = Signal(32), Signal(8), Signal()
        m.d.comb += live.eq(
            reduce(or_, (Mux(flag, value, 0) for flag, value in zip(here, values.values(), strict=True)))
        )
        readable = [r.address for r in self.map.registers if "r" in r.access]
        m.d.sync += [changing.eq(live.word_select(self.index, 8)), known.eq(texts | _any(address == place for place in readable))]
        return known, Mux(here.any(), changing, read.data)


def _within(address: Value, base: int, span: int) -> Value:
    """Whether an address is in a range of a power of two that is aligned to it."""
    bits = span.bit_length() - 1
    return address[bits:] == base >> bits


def _any(flags: Any) -> Value:
    return Cat(*flags).any()
