"""The register map behind a link, which moves words byte by byte."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory

from tg2hdl_lower import HostShape
from tg2hdl_top.ports.decoding import any_of, element_size, window_hits
from tg2hdl_top.ports.element_bytes import ElementBytes
from tg2hdl_top.ports.elements import ElementWriter, add_readers, add_writers
from tg2hdl_top.ports.run_state import RunState
from tg2hdl_top.register_map import AccessCode, RegisterMap

__all__ = ["COUNTERS", "ByteRegisters"]

COUNTERS = ("RUNS", "LINK_ERRORS", "STALLS")
"""Registers that are kept in the memory, and incremented byte by byte."""
_PLACES = 64
"""Bytes of the memory for constant registers and counters."""


class ByteRegisters:
    """Serves the register map of a design to a master that moves words byte by byte.

    One memory holds the description, the constant registers and the counters.  The master drives its signals
    combinationally; they are low unless it sets them.

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
        Byte address of a word, number of the byte in it, and direction; the master drives them from registers.
    waits, refusal : Signal
        Whether the access has to wait for the end of a run, and otherwise its `AccessCode`; a cycle after `address`.
    begin : Signal
        Begin the access of a word.
    byte_in, put, full : Signal
        A byte to write; `put` writes it, and must be low while `full`.
    is_register, commit, verdict : Signal
        Whether the word written is a register; `commit` writes it, and `verdict` is the `AccessCode`.
    byte_out, valid, get : Signal
        The byte read, valid or not yet; `get` takes it, and the master increments `index` with it.
    fresh, compare : Signal
        `compare` compares `byte_in` with a byte of RUNS, that of `index` in the cycle before.  A later START is refused
        if any pair differed since `fresh`.
    reads_memory, counter, add, amount, carry, clear : Signal
        Unless `reads_memory`, byte `index` of the counter is read; two cycles later `add` adds `amount` to it, with
        `carry` for the next byte.  `clear` makes the byte zero.
    state : RunState
    """

    def __init__(self, m: Module, design: Any, serves: HostShape) -> None:
        self.map = RegisterMap(serves)
        windows = self.map.windows
        buffers = [window.buffer for window in windows]
        self.address, self.index, self.write = Signal(self.map.address_bits), Signal(2), Signal()
        self.waits, self.refusal, self.begin = Signal(), Signal(3), Signal()
        self.byte_in, self.put = Signal(8), Signal()
        self.is_register, self.commit, self.verdict = Signal(), Signal(), Signal(3)
        self.byte_out, self.valid, self.get = Signal(8), Signal(), Signal()
        self.reads_memory, self.fresh, self.compare = Signal(), Signal(), Signal()
        self.counter, self.add, self.amount, self.carry = Signal(2), Signal(), Signal(8), Signal()
        self.clear = Signal()
        self._read = Signal(8)  # output register of the memory, so that no adder or comparison is on its path
        self.state = RunState(m, design, self.map)
        address, index, state = self.address, self.index, self.state

        # Decoded from registers, a cycle after the address.
        hit, first = Signal(max(1, len(windows))), Signal()
        m.d.sync += [
            hit.eq(window_hits(address, windows)),
            first.eq(any_of(address == w.address for w in windows)),
        ]
        writers, self.full = add_writers(m, buffers, design.buffers)
        readers = add_readers(m, buffers, design.buffers, ElementBytes)
        writable, readable = any_of(hit[n] for n in writers), any_of(hit[n] for n in readers)
        known, memory = self._memory(m)

        # Address of the next word of the buffer that is being written, and of the one being read.
        write_at, read_at = Signal.like(address), Signal.like(address)
        write_open, read_open = Signal(), Signal()
        is_open = Mux(self.write, write_open & (address == write_at), read_open & (address == read_at))
        in_order = first | is_open
        kept = any_of(hit[n] for n, w in enumerate(windows) if w.buffer.is_state)
        m.d.comb += [
            self.is_register.eq(~writable),
            self.waits.eq(state.occupied & Mux(self.write, address != self.map.places["ERROR"], readable)),
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

        # Whether this byte is the last one of an element of 1, 2, 4 or 8 bytes.
        size, whole = element_size(m, windows, hit), Signal()
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

        slowest = max([2, *(r.delay for r in readers.values())])
        settling = Signal(range(slowest + 1))  # cycles until `byte_out` is the byte
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
        with m.If(step & any_of(hit[n] & r.last for n, r in readers.items())):
            m.d.sync += read_open.eq(0)

    def _write(
        self,
        m: Module,
        writers: dict[int, ElementWriter],
        hit: Value,
        whole: Value,
        write_open: Signal,
    ) -> None:
        """Assemble bytes to elements and to register values."""
        state, windows = self.state, self.map.windows
        has_words = bool(self.map.variables or self.map.loop)
        longest = max([4 * has_words, *(windows[n].element_bytes - 1 for n in writers)], default=0)
        before = Signal(8 * longest)  # shift register of earlier bytes, the latest one at the top
        with m.If(self.put):
            m.d.sync += before.eq(Cat(before, self.byte_in)[8:])
        # Both bytes come from block RAMs: registers between these and the comparison keep the path short.
        given, compared, earlier, stale = Signal(8), Signal(), Signal(), Signal()
        m.d.sync += [given.eq(self.byte_in), compared.eq(self.compare)]
        m.d.comb += stale.eq(earlier | (compared & (given != self._read)))
        with m.If(stale):
            m.d.sync += earlier.eq(1)
        with m.If(self.fresh):
            m.d.sync += [earlier.eq(0), compared.eq(0)]
        so_far = Cat(before, self.byte_in)
        put = self.put & whole & write_open
        for n, w in writers.items():
            element = so_far[len(so_far) - 8 * windows[n].element_bytes :]
            m.d.comb += [w.valid.eq(put & hit[n]), w.element.eq(element)]
        with m.If(put & any_of(hit[n] & w.last for n, w in writers.items())):
            m.d.sync += [state.partial.eq(state.partial & ~hit), write_open.eq(0)]

        def word(register: Value) -> Value:
            return before[-32:]

        def answer(code: int) -> None:
            m.d.comb += self.verdict.eq(code)
            state.refuse(m, code)

        with m.If(self.commit & self.is_register):
            state.write(m, self.address, word, stale, answer)

    def _memory(self, m: Module) -> tuple[Value, Value]:
        """Whether the address can be read and is not in a buffer, and the byte there; both a cycle later."""
        text = self.map.description()
        span = 1 << (len(text) - 1).bit_length()
        base = span - _PLACES if len(text) + _PLACES <= span else max(span, _PLACES)
        content = bytearray(text.ljust(base + _PLACES, b" "))
        content[base:] = bytes(_PLACES)
        for name, value in self.map.constants.items():
            place = base + self.map.places[name]
            content[place : place + 4] = value.to_bytes(4, "little")
        m.submodules.words = memory = Memory(
            shape=8, depth=len(content), init=content, attrs={"ram_style": "block"}
        )
        read, written = memory.read_port(), memory.write_port()
        address = self.address
        texts = address >= self.map.description_address
        upper = Const(base // _PLACES, len(read.addr) - 6)
        place = Mux(texts, address[: span.bit_length() - 1], Cat(address[:6], upper))
        counters = Signal(4)  # of the word
        with m.Switch(self.counter):
            for n, name in enumerate(COUNTERS):
                with m.Case(n):
                    m.d.comb += counters.eq(self.map.places[name] >> 2)
        counted = Cat(Const(0, 2), counters, upper)
        place = Mux(self.reads_memory, place, counted)
        total = self._read + self.amount
        m.d.sync += self._read.eq(read.data)
        m.d.comb += [
            read.addr.eq(Cat(self.index, place[2:])),
            written.addr.eq(read.addr),
            written.data.eq(Mux(self.clear, 0, total)),
            written.en.eq(self.add | self.clear),
            self.carry.eq(total[8]),
        ]

        values = self.state.values
        here = Signal(len(values), name="register_hits")
        m.d.sync += here.eq(Cat(address == self.map.places[name] for name in values))
        live, changing, known = Signal(32), Signal(8), Signal()
        m.d.comb += live.eq(
            reduce(or_, (Mux(flag, value, 0) for flag, value in zip(here, values.values(), strict=True)))
        )
        readable = [r.address for r in self.map.registers if "r" in r.access]
        m.d.sync += [
            changing.eq(live.word_select(self.index, 8)),
            known.eq(texts | any_of(address == place for place in readable)),
        ]
        return known, Mux(here.any(), changing, read.data)
