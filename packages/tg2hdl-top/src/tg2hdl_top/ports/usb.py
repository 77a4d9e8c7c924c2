"""The port ``usb``: requests and replies in packets through a serial device of USB at full speed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from amaranth import Elaboratable, Module, Value
from amaranth.hdl import DomainRenamer, Fragment, ResetInserter
from amaranth.lib import io, wiring
from amaranth.lib.fifo import AsyncFIFO
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import ToolMissingError
from tg2hdl_lower import HostShape
from tg2hdl_top.ports.packet_bridge import PacketBridge
from tg2hdl_top.ports.packet_port import LinkSettings, PacketPort
from tg2hdl_top.ports.packets import END
from tg2hdl_top.ports.usb_transceiver import UsbReceiver, UsbTransmitter

__all__ = ["UsbPort", "UsbSerial"]

_IDENTITY = (0x1209, 0x0001)
"""Vendor and product for tests and private use, of https://pid.codes."""
_LUNA_CLOCK = 60e6
"""Whose counts LUNA takes: at 48 MHz an answer begins 3.75 bits after a packet; the specification allows 2 to 6.5."""
_PACKET = 64
"""Bytes of a packet."""
_NAME = 60
"""Characters of a name; a descriptor has 126 at most."""
_SET_LINE_CODING, _SET_CONTROL_LINE_STATE, _SEND_BREAK = 0x20, 0x22, 0x23


class UsbPort(PacketPort):
    """A serial device of the class CDC-ACM with the register map behind it; its baud rate has no meaning.

    The device is in the clock domain ``usb`` of 48 MHz.  Without a platform, in a simulation and in exported Verilog,
    it is in ``sync``, whose clock is 48 MHz then.

    Members of `outside`: `usb` with `dp` and `dn`, which are sampled; `dp_out`, `dn_out`, driven while `oe` is high;
    and `pullup`, which is high while a host should see the device.
    """

    device = "/dev/ttyACM0"
    clocks: Mapping[str, float] = MappingProxyType({"usb": 48.0})

    def __init__(self, serves: HostShape) -> None:
        super().__init__(serves, wiring.Signature({"usb": Out(UsbPort.pins())}))

    @classmethod
    def claim(cls, free: HostShape) -> HostShape:
        """All, where LUNA is installed."""
        with _luna():
            import luna.gateware.usb.devices.acm  # noqa: F401
        return free

    @staticmethod
    def pins() -> wiring.Signature:
        """The member `usb`, as the outside sees it."""
        inward, outward = {"dp": Out(1, init=1), "dn": Out(1)}, ("dp_out", "dn_out", "oe", "pullup")
        return wiring.Signature({**inward, **{name: In(1) for name in outward}})

    @classmethod
    def has_pins(cls, platform: Any) -> bool:
        """Whether the board has a socket whose lines, and their pull-up, are at the FPGA."""
        if ("usb", 0) not in platform.resources:
            return False
        lines = {pad.name: pad.ios[0] for pad in platform.lookup("usb", 0).ios}
        return all(name in lines and len(lines[name].names) == 1 for name in ("d_p", "d_n", "pullup"))

    @classmethod
    def connect_pins(cls, m: Module, platform: Any, top: Any, settings: LinkSettings) -> None:
        """Connect both lines and the pull-up."""
        line = platform.request("usb", 0, dir={pad.name: "-" for pad in platform.lookup("usb", 0).ios})
        m.submodules.usb_dp = dp = io.Buffer("io", line.d_p)
        m.submodules.usb_dn = dn = io.Buffer("io", line.d_n)
        m.submodules.usb_pullup = pullup = io.Buffer("o", line.pullup)
        m.d.comb += [
            top.usb.dp.eq(dp.i),
            top.usb.dn.eq(dn.i),
            dp.o.eq(top.usb.dp_out),
            dn.o.eq(top.usb.dn_out),
            dp.oe.eq(top.usb.oe),
            dn.oe.eq(top.usb.oe),
            pullup.o.eq(top.usb.pullup),
        ]

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.bridge = bridge = PacketBridge(self.serves)
        wiring.connect(m, wiring.flipped(self.design), bridge.design)
        serial = UsbSerial(self.serves.program)
        m.submodules.serial = DomainRenamer({"usb": "sync"})(serial) if platform is None else serial
        wiring.connect(m, wiring.flipped(self.outside.usb), serial.usb)
        bridge.connect_link(m, serial)
        return m


class UsbSerial(wiring.Component):
    """A serial device between the domains ``usb``, of 48 MHz, and ``sync``.

    Transactions, endpoints and descriptors are LUNA's; its own transceiver answers later than the specification
    allows, and needs another clock of 12 MHz.

    Parameters
    ----------
    product : str
        Name that the host shows.

    Members
    -------
    usb : Out
        As of `UsbPort`.
    byte_in, valid_in : Out
        A byte from the host, for one cycle of ``sync``.
    byte_out, valid_out, ready_out : In, In, Out
        A byte for the host, taken when valid and ready in ``sync``; a packet of USB ends with the byte END.
    """

    def __init__(self, product: str = "") -> None:
        self._product = product
        super().__init__(
            {
                "usb": Out(UsbPort.pins().flip()),
                "byte_in": Out(8),
                "valid_in": Out(1),
                "byte_out": In(8),
                "valid_out": In(1),
                "ready_out": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.requests = requests = AsyncFIFO(width=8, depth=8, w_domain="usb", r_domain="sync")
        m.submodules.replies = replies = AsyncFIFO(width=8, depth=8, w_domain="sync", r_domain="usb")
        m.d.comb += [
            self.byte_in.eq(requests.r_data),
            self.valid_in.eq(requests.r_rdy),
            requests.r_en.eq(1),
            replies.w_data.eq(self.byte_out),
            replies.w_en.eq(self.valid_out),
            self.ready_out.eq(replies.w_rdy),
        ]
        with _luna():
            device = _device(self._product)
            m.submodules.device = Fragment.get(device, platform)
        wiring.connect(m, wiring.flipped(self.usb), device.pins)
        m.d.comb += [
            requests.w_data.eq(device.rx.payload),
            requests.w_en.eq(device.rx.valid),
            device.rx.ready.eq(requests.w_rdy),
            device.tx.payload.eq(replies.r_data),
            device.tx.valid.eq(replies.r_rdy),
            device.tx.last.eq(replies.r_data == END),
            replies.r_en.eq(device.tx.ready),
        ]
        return m


class _Endpoint(Elaboratable):
    """An endpoint of LUNA that begins again; LUNA names its module by the class, or by its address in memory."""

    def __init__(self, endpoint: Any, begins: Value) -> None:
        self.interface, self._endpoint, self._begins = endpoint.interface, endpoint, begins

    @classmethod
    def named(cls, name: str, endpoint: Any, begins: Value) -> _Endpoint:
        """One whose module has a name."""
        made: _Endpoint = type(name, (cls,), {})(endpoint, begins)
        return made

    def elaborate(self, platform: object) -> Elaboratable:
        return ResetInserter({"usb": self._begins})(self._endpoint)


@contextmanager
def _luna() -> Iterator[None]:
    """Its release for Amaranth 0.5 uses names that are deprecated there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            yield
        except ImportError as error:
            raise ToolMissingError(
                f"the port usb is made by LUNA, which is not installed: {error}",
                hint='pip install "tg2hdl[usb]"',
            ) from None


def _device(product: str) -> Any:
    """LUNA's serial device with the requests of all systems, and data toggles that a new configuration clears."""
    from luna.gateware.interface.utmi import UTMIInterface
    from luna.gateware.usb.devices.acm import ACMRequestHandlers, USBSerialDevice
    from luna.gateware.usb.usb2.control import USBControlEndpoint
    from luna.gateware.usb.usb2.device import USBDevice
    from luna.gateware.usb.usb2.endpoints.stream import USBStreamInEndpoint, USBStreamOutEndpoint
    from usb_protocol.types import USBRequestType

    class Requests(ACMRequestHandlers):
        """Pyserial on Linux fails where the control lines are refused."""

        def elaborate(self, platform: object) -> Module:
            m, interface = Module(), self.interface
            accepted = interface.setup.request.matches(_SET_LINE_CODING, _SET_CONTROL_LINE_STATE, _SEND_BREAK)
            with m.If((interface.setup.type == USBRequestType.CLASS) & accepted):
                m.d.comb += interface.claim.eq(1)
                with m.If(interface.rx_ready_for_response):
                    m.d.comb += interface.handshakes_out.ack.eq(1)
                with m.If(interface.status_requested):
                    m.d.comb += self.send_zlp()
            return m

    class Device(USBSerialDevice):
        """Its streams and descriptors, behind our transceiver."""

        def __init__(self) -> None:
            vendor, number = _IDENTITY
            self.pins, self.bus = UsbPort.pins().flip().create(), UTMIInterface()
            super().__init__(
                bus=self.bus,
                idVendor=vendor,
                idProduct=number,
                manufacturer_string="tg2hdl",
                product_string=product[:_NAME],
                max_packet_size=_PACKET,
            )

        def elaborate(self, platform: object) -> Module:
            m = Module()
            bus, pins = self.bus, self.pins
            m.submodules.receiver = receiver = UsbReceiver()
            m.submodules.transmitter = transmitter = UsbTransmitter()
            m.submodules.usb = usb = USBDevice(bus=bus)
            usb.data_clock = _LUNA_CLOCK
            m.d.comb += [
                receiver.dp.eq(pins.dp),
                receiver.dn.eq(pins.dn),
                receiver.blind.eq(transmitter.drives),
                bus.line_state.eq(receiver.line),
                bus.vbus_valid.eq(1),
                bus.rx_data.eq(receiver.byte),
                bus.rx_valid.eq(receiver.valid),
                bus.rx_active.eq(receiver.active),
                transmitter.byte.eq(bus.tx_data),
                transmitter.valid.eq(bus.tx_valid),
                bus.tx_ready.eq(transmitter.ready),
                pins.dp_out.eq(transmitter.dp),
                pins.dn_out.eq(transmitter.dn),
                pins.oe.eq(transmitter.drives),
                pins.pullup.eq(bus.term_select),
            ]
            control = USBControlEndpoint(utmi=bus)
            control.add_standard_request_handlers(self.create_descriptors())
            control.add_request_handler(Requests())
            size = self._max_packet_size
            # Nothing is ever sent there.
            status = USBStreamInEndpoint(endpoint_number=self._STATUS_ENDPOINT_NUMBER, max_packet_size=8)
            receives = USBStreamOutEndpoint(endpoint_number=self._DATA_ENDPOINT_NUMBER, max_packet_size=size)
            sends = USBStreamInEndpoint(endpoint_number=self._DATA_ENDPOINT_NUMBER, max_packet_size=size)
            begins = usb.reset_detected | control.interface.config_changed
            usb.add_endpoint(_Endpoint.named("control", control, usb.reset_detected))
            for name, endpoint in (("status", status), ("receives", receives), ("sends", sends)):
                usb.add_endpoint(_Endpoint.named(name, endpoint, begins))
            m.d.comb += [
                usb.connect.eq(1),
                self.rx.stream_eq(receives.stream),
                sends.stream.stream_eq(self.tx),
            ]
            return m

    return Device()
