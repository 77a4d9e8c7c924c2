"""``--link``: host ports that carry packets, as far as a board has their pins."""

import pytest
from amaranth.lib import wiring
from click.testing import CliRunner

from tg2hdl.cli import cli
from tg2hdl_ir import HostPortDef, InputError, hookimpl, registry
from tg2hdl_top import Design
from tg2hdl_top.ports import PacketPort, link_class, link_kinds


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(
        "import numpy as np\ndef model(x): return x + 1\nexample_inputs = (np.zeros(6, np.int32),)\n"
    )
    return str(path)


def built(model, *options):
    return CliRunner().invoke(cli, ["build", model, *options])


def test_the_links_are_the_ports_that_carry_packets():
    assert {"uart", "spi"} <= set(link_kinds()) <= {"uart", "spi", "udp", "usb"}


def test_a_link_is_the_host_port_of_the_design(model, tmp_path):
    folder = tmp_path / "out"
    result = built(model, "--link", "spi", "-o", str(folder))
    assert result.exit_code == 0, result.output
    assert [port.kind for port in Design.load(folder / "design.json").ports] == ["spi"]


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (("--link", "native"), "the host port 'native' is not a link: it carries no packets", "spi, "),
        (("--link", "urat"), "link 'urat' is unknown", "did you mean uart? choose one of: "),
        (("--link", "spi", "--board", "ulx3s-12f"), "ulx3s-12f has no pins for the link 'spi'", "uart"),
    ],
)
def test_another_link_is_refused_with_those_that_there_are(model, options, message, hint):
    if "--board" in options:
        pytest.importorskip("amaranth_boards")
    error = built(model, *options).exception
    assert isinstance(error, InputError), error
    assert error.message == message
    assert hint in error.hint


def test_a_link_and_a_port_are_one_too_many(model):
    result = built(model, "--link", "spi", "--port", "uart")
    assert result.exit_code == 2
    assert "leave out --port" in result.output


class PigeonPort(PacketPort):
    def __init__(self, serves):
        super().__init__(serves, wiring.Signature({}))


class Plugin:
    @hookimpl
    def tg2hdl_ports():
        return [HostPortDef("pigeon", "RFC 1149", PigeonPort, lambda serves, simulation: None)]


def test_the_port_of_a_plugin_is_a_link():
    with registry().extended(Plugin, distribution="pigeons"):
        assert link_class("pigeon") is PigeonPort
        assert "pigeon" in link_kinds()
    assert "pigeon" not in link_kinds()
