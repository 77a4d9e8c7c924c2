"""The serial line by itself: a dead cable, a bad one, and a design that answers or does not."""

import pytest

from fake_device import DisturbedLine, FakeDevice
from tg2hdl_host import LinkError
from tg2hdl_host.loopback import Loopback, check_loopback


class Line:
    """A line whose other end answers by a function."""

    name = "line"

    def __init__(self, answer):
        self.answer, self.waiting = answer, b""

    def write(self, data):
        self.waiting += self.answer(data)

    def read(self, timeout):
        found, self.waiting = self.waiting[:7], self.waiting[7:]
        return found


def test_what_is_sent_comes_back():
    assert check_loopback(Line(lambda data: data), count=1000) == Loopback(False, 1000)


def test_a_design_is_recognized():
    fake = FakeDevice()
    assert check_loopback(DisturbedLine(fake), timeout=0.05) == Loopback(True, 0)
    assert fake.requests == 1


def test_a_dead_cable():
    with pytest.raises(LinkError) as caught:
        check_loopback(Line(lambda data: b""), timeout=0.01)
    assert str(caught.value) == (
        "nothing comes back from line\n"
        "  at: loop-back\n"
        "  hint: load the loop-back bitstream, which `tg2hdl loopback --board NAME -o DIR` makes; if it is loaded, "
        "the name of the port, the cable or the power is wrong"
    )


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (lambda data: data[:-1] + bytes((data[-1] ^ 1,)), 1),
        (lambda data: data[:-3], 3),
        (lambda data: data + b"x", 0),
    ],
)
def test_a_bad_cable(answer, wrong):
    line = Line(answer)
    if not wrong:  # a byte too many shifts all that follow
        with pytest.raises(LinkError, match="come back changed"):
            check_loopback(line, timeout=0.01)
        return
    with pytest.raises(LinkError) as caught:
        check_loopback(line, timeout=0.01)
    assert str(caught.value) == (
        f"{wrong} of 256 bytes come back changed from line\n"
        "  at: loop-back\n"
        "  hint: take a slower rate with --baud, another cable, or a port of the computer instead of a hub"
    )
