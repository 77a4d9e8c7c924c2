"""The endpoint of the port ``udp`` against frames that are written here byte by byte, or by formulas of the RFCs."""

import random
import zlib
from functools import cache

import pytest

from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_top.ports.udp_endpoint import UdpEndpoint

OWN, HOST, OTHER = bytes.fromhex("0254c0a80132"), bytes.fromhex("3c5282abcdef"), bytes.fromhex("001122334455")
HOLD_BITS = 12
ARP = bytes.fromhex(  # who has 192.168.1.50? tell 192.168.1.7
    "ffffffffffff 3c5282abcdef 0806 0001 0800 06 04 0001 3c5282abcdef c0a80107 000000000000 c0a80132"
)
ARP_REPLY = bytes.fromhex(  # 192.168.1.50 is at 02:54:c0:a8:01:32
    "3c5282abcdef 0254c0a80132 0806 0001 0800 06 04 0002 0254c0a80132 c0a80132 3c5282abcdef c0a80107"
)


def checksum(data: bytes) -> int:
    """RFC 1071, in integers of any size."""
    total = sum(int.from_bytes(data[n : n + 2].ljust(2, b"\0"), "big") for n in range(0, len(data), 2))
    return 0xFFFF - (total % 0xFFFF or (0xFFFF if total else 0))


def packet(protocol: int, payload: bytes, source=7, target=50, flags=0x4000, first=0x45, total=None) -> bytes:
    total = 20 + len(payload) if total is None else total
    head = bytes((first, 0)) + total.to_bytes(2, "big") + b"\x12\x34" + flags.to_bytes(2, "big")
    head += bytes((64, protocol, 0, 0, 192, 168, 1, source, 192, 168, 1, target))
    return head[:10] + checksum(head).to_bytes(2, "big") + head[12:] + payload


def datagram(data: bytes, port=40000, target=21575, size=None) -> bytes:
    size = 8 + len(data) if size is None else size
    return b"".join(n.to_bytes(2, "big") for n in (port, target, size, 0xBEEF)) + data


def frame(payload: bytes, target=OWN, source=HOST, kind=0x0800) -> bytes:
    """With padding and check."""
    body = (target + source + kind.to_bytes(2, "big") + payload).ljust(60, b"\0")
    return body + zlib.crc32(body).to_bytes(4, "little")


def request(data: bytes, source=7, port=40000, mac=HOST, **options) -> bytes:
    return frame(packet(17, datagram(data, port), source, **options), source=mac)


@cache
def compiled():
    return SimulationModel(UdpEndpoint(HOLD_BITS))


class Bench:
    """Frames in, bytes and frames out; the strobes are high in one of `every` cycles."""

    def __init__(self, every=1):
        self.simulation = open_simulation(compiled(), engine="auto", expected_cycles=1_000_000)
        self.every = every
        self.bytes, self.frames, self._frame, self._outgoing = bytearray(), [], bytearray(), bytearray()
        self.simulation.set("eth__ip", 0xC0A80132)

    def step(self, byte=0, valid=0, error=0):
        simulation = self.simulation
        simulation.set("eth__rxd", byte)
        simulation.set("eth__rx_dv", valid)
        simulation.set("eth__rx_er", error)
        for cycle in range(self.every):
            strobe = cycle == self.every - 1
            simulation.set("eth__rx_ce", strobe)
            simulation.set("eth__tx_ce", strobe)
            simulation.set("byte_out", self._outgoing[0] if self._outgoing else 0)
            simulation.set("valid_out", bool(self._outgoing))
            if self._outgoing and simulation.get("ready_out"):
                del self._outgoing[0]
            simulation.step()
            if simulation.get("valid_in"):
                self.bytes.append(simulation.get("byte_in"))
        if simulation.get("eth__tx_en"):
            self._frame.append(simulation.get("eth__txd"))
        elif self._frame:
            self.frames.append(bytes(self._frame))
            self._frame.clear()

    def send(self, *frames, error=-1):
        """At the smallest gap, which is 12 bytes; `error` is the place of RX_ER."""
        for one in frames:
            for place, byte in enumerate(b"\x55" * 7 + b"\xd5" + one):
                self.step(byte, 1, place - 8 == error)
            for _ in range(12):
                self.step()

    def say(self, data):
        self._outgoing += data

    def quiet(self, count=200):
        for _ in range(count):
            self.step()
        return bytes(self.bytes)

    def answers(self):
        """Frames without preamble and check, which are verified."""
        found = []
        for one in self.frames:
            assert one[:8] == b"\x55" * 7 + b"\xd5"
            assert zlib.crc32(one[8:-4]).to_bytes(4, "little") == one[-4:]
            assert len(one) >= 72
            found.append(one[8:-4])
        self.frames.clear()
        return found


@pytest.mark.parametrize("every", [1, 3])
def test_arp_requests_are_answered(every):
    bench = Bench(every)
    bench.send(frame(ARP[14:], ARP[:6], ARP[6:12], 0x0806))
    bench.quiet()
    bench.send(frame(ARP[14:], OWN, ARP[6:12], 0x0806))  # as Linux verifies an entry
    bench.quiet()
    for change in ({41: 51}, {21: 2}, {0: 2}):  # another address, a reply, another target
        other = bytearray(ARP)
        for place, byte in change.items():
            other[place] = byte
        bench.send(frame(other[14:], bytes(other[:6]), HOST, 0x0806))
        bench.quiet()
    assert bench.answers() == [ARP_REPLY.ljust(60, b"\0")] * 2
    assert not bench.bytes


@pytest.mark.parametrize(
    ("size", "head"), [(0, b"\1\2"), (32, b"\1\2"), (56, b"\xff\xff"), (81, b"\0\0"), (82, None)]
)
def test_echo_requests_are_answered(size, head):
    """Heads make checksums around the carries of the change from 8 to 0."""
    bench, seen = Bench(), []
    data = bytes(range(100, 100 + size))
    for number in range(6):
        message = (head or b"\0\0") + bytes((0xF0 + 3 * number, 0x37)) + data
        message = b"\x08\0" + checksum(b"\x08\0\0\0" + message).to_bytes(2, "big") + message
        bench.send(frame(packet(1, message)))
        bench.quiet(250)
        seen += [message] * (head is not None)  # else it is too long
    for message, answer in zip(seen, bench.answers(), strict=True):
        assert answer[:12] == HOST + OWN
        assert answer[14:34] == packet(1, message, 50, 7)[:20]
        reply = answer[34 : 34 + len(message)]
        assert reply[:2] == b"\0\0"
        assert reply[4:] == message[4:]
        assert checksum(reply) == 0


@pytest.mark.parametrize("every", [1, 2])
def test_datagrams_come_through_and_replies_go_to_the_sender(every):
    bench, rng = Bench(every), random.Random(1)
    sent = [rng.randbytes(size) for size in (1, 17, 18, 19, 200, 1472)]
    bench.send(*map(request, sent))
    assert bench.quiet(1600) == b"".join(sent)
    replies = [rng.randbytes(size).replace(b"\xc0", b"\0") + b"\xc0" for size in (1, 16, 17, 300, 1472, 2000)]
    bench.say(b"".join(replies))
    bench.quiet(9000)
    parts = [part for reply in replies for part in (reply[:1472], reply[1472:]) if part]
    for part, answer in zip(parts, bench.answers(), strict=True):
        assert answer[:14] == HOST + OWN + b"\x08\0"
        assert answer[14:34] == packet(17, bytes(8 + len(part)), 50, 7)[:20]
        assert answer[34:42] == datagram(part, 21575, 40000)[:6] + b"\0\0"
        assert answer[42:].rstrip(b"\0") == part if len(part) < 18 else answer[42:] == part


WRONG = {
    "another Ethernet address": frame(packet(17, datagram(b"x")), b"\x02\x54\xc0\xa8\x01\x33"),
    "broadcast": frame(packet(17, datagram(b"x")), b"\xff" * 6),
    "another IP address": request(b"x", target=51),
    "another port": frame(packet(17, datagram(b"x", target=21576))),
    "another protocol": frame(packet(6, datagram(b"x"))),
    "another type": frame(packet(17, datagram(b"x")), kind=0x0801),
    "a tag": frame(b"\0\1\x08\0" + packet(17, datagram(b"x")), kind=0x8100),
    "a first fragment": request(b"x", flags=0x2000),
    "a later fragment": request(b"x", flags=0x0001),
    "options": request(b"x", first=0x46),
    "version 6": request(b"x", first=0x65),
    "a longer packet than the frame": request(b"x" * 40, total=69),
    "a packet of 2 kB": request(b"x" * 40, total=0x844),
    "a datagram of another length": frame(packet(17, datagram(b"x" * 40, size=47))),
    "a datagram of 2 kB": frame(packet(17, datagram(b"x" * 40, size=0x830))),
    "a short frame": (lambda body: body + zlib.crc32(body).to_bytes(4, "little"))(request(b"x")[:52]),
    "a long frame": frame(packet(17, datagram(b"x")).ljust(1501, b"\0")),
    "a header with a wrong checksum": frame(
        packet(17, datagram(b"x"))[:8] + b"\x41" + packet(17, datagram(b"x"))[9:]
    ),
}


def test_frames_for_others_and_malformed_ones_are_dropped():
    bench = Bench()
    for name, wrong in WRONG.items():
        bench.send(wrong)
        assert bench.quiet(20) == b"", name
    bench.send(request(b"x" * 40), error=30)
    assert bench.quiet() == b""
    bench.send(request(b"right"))
    assert bench.quiet() == b"right"
    assert bench.answers() == []


def test_a_damaged_frame_is_dropped_and_the_next_one_comes_through():
    """Any bit of the frame, of each kind; a frame that is cut, and one that is joined with the next."""
    rng = random.Random(2)
    good = request(b"\xc0abcdefgh\xc0")
    arp = frame(ARP[14:], ARP[:6], ARP[6:12], 0x0806)
    bench = Bench()
    for bit in sorted(rng.sample(range(8 * 64), 90)):
        for one in (good, arp):
            damaged = bytearray(one)
            damaged[bit // 8] ^= 1 << bit % 8
            bench.send(bytes(damaged))
    bench.send(good[:63], good[:30], good[20:], good + b"\x55" * 7 + b"\xd5" + good, b"\x12" + good)
    bench.quiet()
    assert (bytes(bench.bytes), bench.answers()) == (b"", [])
    bench.send(good)
    assert bench.quiet() == b"\xc0abcdefgh\xc0"


def test_one_sender_owns_the_design_until_it_says_good_bye_or_nothing():
    bench = Bench()
    second = {"source": 9, "port": 40001, "mac": OTHER}
    bench.send(request(b"a"), request(b"b", **second), request(b"c", port=40002), request(b"d"))
    assert bench.quiet() == b"ad"
    bench.say(b"1\xc0")
    bench.quiet()
    bench.send(request(b""), request(b"e", **second), request(b"f"))
    assert bench.quiet() == b"ade"
    bench.say(b"2\xc0")
    bench.quiet()
    bench.quiet(1 << HOLD_BITS)
    bench.send(request(b"g"))
    assert bench.quiet() == b"adeg"
    assert [answer[:6] for answer in bench.answers()] == [HOST, OTHER]


def test_requests_at_the_line_rate_while_replies_and_answers_go_out():
    bench, rng = Bench(), random.Random(3)
    sent = [rng.randbytes(rng.choice((1, 30, 700, 1472))) for _ in range(12)]
    replies = [bytes((n,)) * 50 + b"\xc0" for n in range(20)]
    bench.send(request(sent[0]))
    bench.say(b"".join(replies))
    for data in sent[1:]:
        bench.send(frame(ARP[14:], ARP[:6], ARP[6:12], 0x0806), request(data))
    assert bench.quiet(4000) == b"".join(sent)
    answers = bench.answers()
    assert [a[42:] for a in answers if a[12:14] == b"\x08\0"] == replies
    arp = [a for a in answers if a[12:14] == b"\x08\x06"]
    assert len(arp) >= 5  # one waits at a time
    assert set(arp) == {ARP_REPLY.ljust(60, b"\0")}
