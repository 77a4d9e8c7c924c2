"""Frames to a UDP endpoint: what is for it, the bytes of its datagrams, and the headers of answers."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_top.ports.ethernet import within

__all__ = ["ETHERNET", "HEADERS", "UDP_PORT", "UdpRequests"]

UDP_PORT = 21575
HEADERS, ETHERNET = 42, 14
"""Bytes before the data of a datagram, and those that Ethernet has."""
_SLOT_BITS = 7
"""Of the address in the memory for an answer's headers, or for a whole short answer."""
_CHECK, _BUFFER = 4, 2048
_PREFIX = (0x02, 0x54)
"""First bytes of the Ethernet address; the others are the IP address."""


class UdpRequests(wiring.Component):
    """Takes frames byte by byte.

    The headers of each frame are written, turned around, to the slot of the answers' memory that is free.  What the
    frame is for is known when it has ended undamaged; its slot then holds the headers for the owner's replies, or
    an answer to an ARP or echo request.

    Parameters
    ----------
    hold_bits : int
        The owner is given up after 2**`hold_bits` cycles without a datagram or a reply.

    Members
    -------
    byte, place, taken, begins, ends, good : In
        As of `FrameReceiver`.
    ip : In(32)
    replying, answered : In(1)
        A reply is waiting or sent, so that its headers stay; the answer in `answer_slot` is sent.
    out, available : Out
        A byte of a datagram of the owner.
    write, address, data : Out
        To the memory of the answers.
    owner_slot, base : Out
        Headers of replies, and the sum of the header fields that their checksum is made of (RFC 1624).
    answer, answer_slot, length : Out
        An answer of `length` bytes waits.
    """

    def __init__(self, hold_bits: int) -> None:
        self._hold_bits = hold_bits
        frame = {"byte": In(8), "place": In(11)} | dict.fromkeys(("taken", "begins", "ends", "good"), In(1))
        told = {"ip": In(32), "replying": In(1), "answered": In(1)}
        found = {"out": Out(8), "available": Out(1), "write": Out(1), "address": Out(11), "data": Out(8)}
        slots = {"owner_slot": Out(2), "base": Out(17), "answer": Out(1), "answer_slot": Out(2, init=1)}
        super().__init__(frame | told | found | slots | {"length": Out(11)})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        address = [*_PREFIX, *(self.ip.word_select(n, 8) for n in (3, 2, 1, 0))]
        unlike = self._compare(m, address)
        left, is_empty = self._lengths(m, unlike)
        is_right, base = self._sum(m)
        self._turn(m, address, unlike)

        # The verdict comes a cycle after the end of the frame; the next frame needs 20 for its preamble.
        verdict, sender, owner, is_owned = Signal(), Signal(48), Signal(48), Signal()
        m.d.sync += verdict.eq(self.ends & self.good)
        with m.If(self.taken & (within(self.place, 26, 30) | within(self.place, 34, 36))):
            m.d.sync += sender.eq(Cat(self.byte, sender[:40]))
        is_ip = ~unlike["ip"] & ~unlike["me"] & is_right & ~left.any()
        is_udp = is_ip & ~unlike["udp"]
        is_echo = is_ip & ~unlike["echo"]
        is_arp = ~unlike["arp"] & ~(unlike["me"] & unlike["all"])
        is_short = within(self.place, 0, 1 << _SLOT_BITS)
        known = is_owned & (sender == owner)
        adopts, answers, accepts = Signal(), Signal(), Signal()
        m.d.comb += [
            adopts.eq(verdict & is_udp & ~is_owned & ~self.replying),
            accepts.eq(verdict & is_udp & known | adopts),
            answers.eq(verdict & (is_arp | is_echo) & is_short & ~self.answer),
        ]
        free = Signal(2, init=2)
        with m.If(adopts):
            m.d.sync += [self.owner_slot.eq(free), free.eq(self.owner_slot)]
            m.d.sync += [owner.eq(sender), self.base.eq(base)]
        with m.If(self.answered):
            m.d.sync += self.answer.eq(0)
        with m.If(answers):
            m.d.sync += [self.answer_slot.eq(free), free.eq(self.answer_slot), self.answer.eq(1)]
            m.d.sync += self.length.eq(self.place[:_SLOT_BITS] - _CHECK)
        quiet = Signal(self._hold_bits)
        m.d.sync += quiet.eq(quiet + 1)
        with m.If(accepts | self.replying):
            m.d.sync += quiet.eq(0)
        with m.If(accepts):
            m.d.sync += is_owned.eq(~is_empty)  # an empty datagram says good-bye
        with m.Elif(quiet.all()):
            m.d.sync += is_owned.eq(0)
        m.d.comb += self.address[_SLOT_BITS:].eq(Cat(free, Const(0b11, 2)))
        self._deliver(m, left, ~unlike["udp"] & ~unlike["me"], accepts)
        return m

    def _compare(self, m: Module, address: list[int | Signal]) -> dict[str, Signal]:
        """For each kind of frame, whether a byte has differed."""
        ip = address[2:]
        start = {12: 0x08, 13: 0x06, 14: 0, 15: 1, 16: 0x08, 17: 0, 18: 6, 19: 4, 20: 0, 21: 1}
        expected: dict[str, dict[int, int | Signal]] = {
            "me": dict(enumerate(address)),
            "all": dict.fromkeys(range(6), 0xFF),
            "arp": start | {38 + n: value for n, value in enumerate(ip)},
            "ip": {12: 0x08, 13: 0, 14: 0x45, 21: 0} | {30 + n: value for n, value in enumerate(ip)},
            "udp": {23: 17, 36: UDP_PORT >> 8, 37: UDP_PORT & 0xFF},
            "echo": {23: 1, 34: 8, 35: 0},
        }
        unlike = {name: Signal(name=f"unlike_{name}") for name in expected}
        with m.If(self.begins):
            m.d.sync += [signal.eq(0) for signal in unlike.values()]
        with m.If(self.taken), m.Switch(self.place):
            for place in sorted({n for values in expected.values() for n in values} | {20}):
                with m.Case(place):
                    for name, values in expected.items():
                        if place in values:
                            with m.If(self.byte != values[place]):
                                m.d.sync += unlike[name].eq(1)
                    if place == 20:  # a fragment
                        with m.If((self.byte & 0xBF) != 0):
                            m.d.sync += unlike["ip"].eq(1)
        return unlike

    def _lengths(self, m: Module, unlike: dict[str, Signal]) -> tuple[Signal, Signal]:
        """Bytes that the frame still has by the length of its IP packet; whether a datagram is empty.

        After the length there are as many bytes as it says: 4 of the packet belong before it, 4 of the check after it.
        """
        left, low, is_empty = Signal(11), Signal(8), Signal()
        with m.If(self.taken):
            with m.If(left.any()):
                m.d.sync += left.eq(left - 1)
            with m.Switch(self.place):
                with m.Case(16):
                    m.d.sync += left.eq(self.byte[:3] << 8)
                    with m.If(self.byte[3:].any()):
                        m.d.sync += unlike["ip"].eq(1)
                with m.Case(17):
                    m.d.sync += left.eq(Cat(self.byte, left[8:]))
                with m.Case(38):  # the rest of the packet is the datagram
                    m.d.sync += [low.eq(left), is_empty.eq(left == 8)]
                    with m.If(self.byte != left[8:]):
                        m.d.sync += unlike["udp"].eq(1)
                with m.Case(39), m.If(self.byte != low):
                    m.d.sync += unlike["udp"].eq(1)
        return left, is_empty

    def _sum(self, m: Module) -> tuple[Value, Signal]:
        """Whether the IP header has the right checksum; and the sum of its complements of length and checksum."""
        # Byte by byte: the carry out of the lower one goes to the upper one, and out of that around to the lower one.
        total, carry, result = Signal(16), Signal(), Signal(9)
        m.d.comb += result.eq((Cat(Const(1, 1), self.byte) + Cat(carry, total[8:]))[1:])
        high, base = Signal(8), Signal(17)
        word = Cat(self.byte, high)
        with m.If(self.begins):
            m.d.sync += [total.eq(0), carry.eq(0)]
        with m.If(self.taken):
            m.d.sync += high.eq(self.byte)
            with m.If(within(self.place, 14, 34)):
                m.d.sync += [total.eq(Cat(result[:8], total[:8])), carry.eq(result[8])]
            with m.If(self.place == 17):
                m.d.sync += base.eq(~word)
            with m.If(self.place == 25):
                m.d.sync += base.eq(base + (~word)[:16])
        return total == Mux(carry, 0xFEFF, 0xFFFF), base

    def _turn(self, m: Module, address: list[int | Signal], unlike: dict[str, Signal]) -> None:
        """Write the byte where the answer has it: sender and target change places."""
        place, byte = self.place, self.byte
        own, carry = Signal(8), Signal()
        with m.Switch(place[:3]):  # places 0 to 5, and 32 to 37 of ARP
            for n, value in enumerate(address):
                with m.Case(n):
                    m.d.comb += own.eq(value)
        shift = Signal(signed(5))
        m.d.comb += [self.write.eq(self.taken & within(place, 0, 1 << _SLOT_BITS)), self.data.eq(byte)]
        m.d.comb += self.address[:_SLOT_BITS].eq(place[:_SLOT_BITS] + shift)
        with m.If(within(place, 0, 6)):
            m.d.comb += [shift.eq(6), self.data.eq(own)]
        with m.Elif(within(place, 6, 12)):
            m.d.comb += shift.eq(-6)
        with m.Elif(~unlike["arp"]):
            with m.If(place == 21):
                m.d.comb += self.data.eq(2)
            with m.Elif(within(place, 22, 32)):
                m.d.comb += shift.eq(10)
            with m.Elif(within(place, 32, HEADERS)):
                m.d.comb += shift.eq(-10)
                with m.If(within(place, 32, 38)):
                    m.d.comb += self.data.eq(own)
        with m.Elif(within(place, 26, 34)):
            m.d.comb += shift.eq(Mux(within(place, 26, 30), 4, -4))
        with m.Elif(~unlike["udp"] & within(place, 34, 38)):
            m.d.comb += shift.eq(Mux(place[1], 2, -2))
        with m.Elif(~unlike["echo"]):
            # The type falls from 8 to 0, so that the checksum rises by 0x0800, and by a carry out of its upper byte.
            with m.If(place == 34):
                m.d.comb += self.data.eq(0)
            with m.If(place == 36):
                m.d.comb += self.data.eq(byte + 8)
            with m.If(place == 37):
                m.d.comb += self.data.eq(byte + carry)
        with m.If(self.taken & (place == 36)):
            m.d.sync += carry.eq(byte >= 0xF8)
        with m.If(self.taken & (place == 37) & carry & byte.all()):  # one in 8,192; the carry would go around
            m.d.sync += unlike["echo"].eq(1)

    def _deliver(self, m: Module, left: Signal, is_near: Value, accepts: Signal) -> None:
        """Keep the data of a datagram until its frame has ended, and give it out."""
        m.submodules.memory = memory = Memory(shape=8, depth=_BUFFER, init=[])
        write, read = memory.write_port(), memory.read_port()
        head, done, tail = (Signal(range(_BUFFER), name=n) for n in ("head", "done", "tail"))
        full = Signal()
        is_data = is_near & ~within(self.place, 0, HEADERS) & ~within(left, 0, _CHECK + 1)
        m.d.comb += [write.addr.eq(head), write.data.eq(self.byte), write.en.eq(self.taken & is_data)]
        with m.If(self.begins):
            m.d.sync += [head.eq(done), full.eq(0)]
        with m.Elif(write.en):
            m.d.sync += head.eq(head + 1)
            with m.If((head + 1)[: len(head)] == tail):
                m.d.sync += full.eq(1)
        with m.If(accepts & ~full):
            m.d.sync += done.eq(head)
        here = tail != done
        m.d.comb += [read.addr.eq(tail), self.out.eq(read.data)]
        m.d.sync += [self.available.eq(here), tail.eq(tail + here)]
