"""The register map as hardware: registers, description and buffers behind one bus of 32 bits."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import HostShape
from tg2hdl_top.ports.decoding import any_of, element_size, window_hits
from tg2hdl_top.ports.elements import ElementReader, add_readers, add_writers, padded
from tg2hdl_top.ports.held_word import HeldWord, spread
from tg2hdl_top.ports.run_state import RunState
from tg2hdl_top.register_map import REGISTERS, AccessCode, RegisterMap

__all__ = ["BusSignature", "RegisterFile"]

_ERROR = next(register.address for register in REGISTERS if register.name == "ERROR")


class BusSignature(wiring.Signature):
    """Access to the register map, as its master drives it.

    Members
    -------
    valid : Out(1)
        An access is asked for, until `ready`; low in the cycle after it.
    write, address, data : Out
        Stable while valid; the address counts bytes and is a multiple of 4.
    strobes : Out(4)
        Bytes that are written.
    ready : In(1)
        The access is over; `value` and `code` are there in this cycle.
    value, code : In
        The word read, and a code of `AccessCode`.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__(
            {
                "strobes": Out(4, init=15),
                "valid": Out(1),
                "write": Out(1),
                "address": Out(address_bits),
                "data": Out(32),
                "ready": In(1),
                "value": In(32),
                "code": In(3),
            }
        )


class RegisterFile(wiring.Component):
    """Serves the register map of a design.

    Members
    -------
    bus : In(BusSignature)
    design : Out(serves.signature(by_element=True))
    irq : Out(1)
        The interrupt.

    Parameters
    ----------
    serves : HostShape
    """

    def __init__(self, serves: HostShape) -> None:
        self.map = RegisterMap(serves, has_bus=True)
        super().__init__(
            {
                "bus": In(BusSignature(self.map.address_bits)),
                "design": Out(serves.signature(by_element=True)),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        bus, windows = self.bus, self.map.windows
        # One cycle after the bus; it is decoded from registers.
        address, write, data = Signal.like(bus.address), Signal(), Signal(32)
        hit = Signal(max(1, len(windows)))
        first, final = Signal.like(hit), Signal.like(hit)
        m.d.sync += [
            address.eq(bus.address),
            write.eq(bus.write),
            data.eq(bus.data),
            hit.eq(window_hits(bus.address, windows)),
            first.eq(Cat(bus.address == w.address for w in windows)),
            final.eq(Cat((bus.address == w.last_word) & w.buffer.writes for w in windows)),
        ]
        begins = first.any()
        state = RunState(m, self.design, self.map)
        runs = Signal(32)
        m.d.sync += runs.eq(runs + state.starting)
        known, found = self._read_register(m, state, runs)
        writers, waiting = add_writers(m, [w.buffer for w in windows], self.design.buffers)
        readers = add_readers(m, [w.buffer for w in windows], self.design.buffers, ElementReader)
        writable, readable = any_of(hit[n] for n in writers), any_of(hit[n] for n in readers)

        # Address of the next word of the buffer that is being written, and of the one being read.
        write_at, read_at = Signal.like(address), Signal.like(address)
        following = (address + 4)[: len(address)]
        write_open, read_open, follows, merges = Signal(), Signal(), Signal(), Signal()
        held = HeldWord(hit)
        # Element of the word; half of an element of 64 bits.
        piece, half = Signal(range(4)), address[2]
        again = Signal()  # `value` is the word before `read_at`
        size = element_size(m, windows, hit)
        put_size = element_size(m, windows, held.put_hit)
        low, element, got, value = Signal(32), Signal(64), Signal(64), Signal(32)
        put, take, from_buffer = Signal(), Signal(), Signal()
        with m.Switch(put_size):
            with m.Case(0):
                m.d.comb += element.eq(held.put_data.word_select(piece, 8))
            with m.Case(1):
                m.d.comb += element.eq(held.put_data.word_select(piece[0], 16))
            with m.Case(2):
                m.d.comb += element.eq(held.put_data)
            with m.Case(3):
                m.d.comb += element.eq(Cat(low, held.put_data))
        for n, w in writers.items():
            m.d.comb += [w.valid.eq(put & held.put_hit[n]), w.element.eq(element)]
        for n, r in readers.items():
            m.d.comb += r.take.eq(take & hit[n])
            with m.If(hit[n]):
                m.d.comb += got.eq(padded(r.element, windows[n].buffer))
        put_last = any_of(held.put_hit[n] & w.last for n, w in writers.items())
        got_last = any_of(hit[n] & r.last for n, r in readers.items())
        got_valid = any_of(hit[n] & r.valid for n, r in readers.items())

        written = spread(bus.strobes)

        def word(register: Value) -> Value:
            """The value of a register after a write to some of its bytes."""
            return ((register & ~written) | (data & written))[:32]

        def answer(code: int) -> None:
            m.d.sync += [bus.ready.eq(1), bus.code.eq(code)]
            state.refuse(m, code)

        def answer_element() -> None:
            answer(AccessCode.OK)
            m.d.sync += [from_buffer.eq(1), again.eq(1)]

        def hold() -> None:
            m.d.sync += [write_at.eq(following), write_open.eq(~final.any())]
            held.take(m, merges, hit, data, bus.strobes)
            answer(AccessCode.OK)

        def decode() -> None:
            with m.If(state.occupied & ((write & (address != _ERROR)) | (~write & readable))):
                answer(AccessCode.BUSY)
            with m.Elif(write & writable):
                with m.If(~begins & ~(follows | held.valid)):
                    answer(AccessCode.ORDER)
                with m.Else():
                    with m.If(begins):
                        m.d.comb += [w.restart.eq(hit[n]) for n, w in writers.items()]
                        m.d.sync += state.partial.eq(state.partial | hit)
                    hold()
            with m.Elif(write):
                with m.If(state.starts(address)):
                    m.d.sync += [read_open.eq(0), again.eq(0)]
                state.write(m, address, word, (data & written) != runs, answer)
            with m.Elif(readable):
                kept = any_of(hit[n] for n, w in enumerate(windows) if w.buffer.is_state)
                with m.If(~state.result & ~kept):
                    answer(AccessCode.EARLY)
                with m.Elif(again & (following == read_at)):
                    answer_element()
                with m.Elif(~begins & ~(read_open & (address == read_at))):
                    answer(AccessCode.ORDER)
                with m.Else():
                    with m.If(begins):
                        m.d.comb += [r.restart.eq(hit[n]) for n, r in readers.items()]
                    m.d.sync += [piece.eq(0), value.eq(0), read_at.eq(following), read_open.eq(1)]
                    m.next = "TAKE"
            with m.Elif(known):
                answer(AccessCode.OK)
            with m.Else():
                answer(AccessCode.ADDRESS)

        m.d.sync += [bus.ready.eq(0), from_buffer.eq(0)]
        m.d.comb += bus.value.eq(Mux(from_buffer, value, found))
        with m.If(held.putting & ~waiting):
            whole = held.is_whole(piece, put_size)
            m.d.comb += put.eq(whole & ((put_size != 3) | held.put_half))
            m.d.sync += [piece.eq(piece + 1), low.eq(held.put_data)]
            with m.If((put & put_last) | (piece == _last_piece(put_size)) | ~whole):
                m.d.sync += held.putting.eq(0)
            with m.If(put & put_last):
                m.d.sync += state.partial.eq(state.partial & ~held.put_hit)
            with m.If(~whole):
                m.d.sync += write_open.eq(0)
                state.refuse(m, AccessCode.ORDER)
        with m.FSM():
            with m.State("IDLE"), m.If(bus.valid & ~bus.ready & ~waiting):
                m.next = "DECODE"
            with m.State("DECODE"):
                m.next = "IDLE"
                m.d.comb += merges.eq(write & writable & (following == write_at))
                m.d.sync += again.eq(again & ~write)
                m.d.comb += follows.eq(write_open & (address == write_at))
                flows = write & writable & follows & bus.strobes.any() & ~state.occupied
                with m.If(held.valid & ~merges):  # the word before is complete now
                    with m.If(~held.putting):
                        held.put(m, ~write_at[2])
                        m.d.sync += piece.eq(0)
                    with m.If(flows & held.strobes.all() & ~held.putting):
                        hold()
                    with m.Else():
                        m.next = "DECODE"
                with m.Elif(held.putting | waiting):
                    m.next = "DECODE"
                with m.Elif(write & ~bus.strobes.any()):
                    answer(AccessCode.OK)
                with m.Else():
                    decode()
            with m.State("TAKE"):
                m.d.comb += take.eq(got_valid & ((size != 3) | half))
                with m.If(got_valid):
                    m.d.sync += piece.eq(piece + 1)
                    with m.Switch(size):
                        with m.Case(0):
                            m.d.sync += value.word_select(piece, 8).eq(got[:8])
                        with m.Case(1):
                            m.d.sync += value.word_select(piece[0], 16).eq(got[:16])
                        with m.Case(2):
                            m.d.sync += value.eq(got[:32])
                        with m.Case(3):
                            m.d.sync += value.eq(Mux(half, got[32:], got[:32]))
                    with m.If((take & got_last) | (piece == _last_piece(size))):
                        answer_element()
                        m.next = "IDLE"
                    with m.If(take & got_last):
                        m.d.sync += read_open.eq(0)
        with m.If(self.design.done):
            m.d.sync += state.pending[0].eq(1)
        m.d.comb += self.irq.eq((state.pending & state.enabled).any())
        return m

    def _description(self, m: Module) -> Value:
        """Word of the description at the address of the bus, a cycle later."""
        text = self.map.description()
        text += b" " * (-len(text) % 4)
        words = [int.from_bytes(text[n : n + 4], "little") for n in range(0, len(text), 4)]
        m.submodules.description = memory = Memory(shape=32, depth=len(words), init=words)
        port = memory.read_port()
        m.d.comb += port.addr.eq(self.bus.address[2:])
        return port.data

    def _read_register(self, m: Module, state: RunState, runs: Value) -> tuple[Value, Value]:
        """Whether the address of the bus has a value outside of windows, a cycle later; and the value, after two."""
        address = self.bus.address
        values: dict[str, Any] = {
            **self.map.constants,
            "RUNS": runs,
            "LINK_ERRORS": 0,
            "STALLS": 0,
            "IRQ_ENABLE": state.enabled,
            "IRQ_PENDING": state.pending,
            **state.values,
        }
        chosen = [r for r in self.map.registers if "r" in r.access]
        hits = Signal(1 + len(chosen), name="register_hits")
        found = Signal(32, name="register_value", reset_less=True)
        texts = address >= self.map.description_address
        m.d.sync += hits.eq(Cat(texts, (~texts & (address == r.address) for r in chosen)))
        words = [self._description(m), *(values[r.name] for r in chosen)]
        m.d.sync += found.eq(reduce(or_, (Mux(hit, word, 0) for hit, word in zip(hits, words, strict=True))))
        return hits.any(), found


def _last_piece(size: Value) -> Value:
    """Number of the last element of a word."""
    return Mux(size == 0, 3, Mux(size == 1, 1, 0))
