"""Verilog of the buses and links of testbenches: tasks `store` and `fetch` of a word, and the ports that they drive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tg2hdl_top.ports.packets import OP_READ, OP_SYNC, OP_WRITE

__all__ = ["LINKS", "BenchLink"]


@dataclass(frozen=True)
class BenchLink:
    """A host port of a design in a testbench.

    Parameters
    ----------
    declarations : callable
        Verilog from the bits of an address.
    ports : dict of str to str
        Expressions for the ports of the design, by their names.
    tasks : str
        Verilog of the tasks ``store(place, value)`` and ``fetch(place)``; the latter sets ``found``.
    has_interrupt : bool
    """

    declarations: Callable[[int], str]
    ports: dict[str, str]
    tasks: str
    has_interrupt: bool = True


_AXI_LITE = """
  task store(input [31:0] place, input [31:0] value);
    begin
      awvalid = 1;
      wvalid = 1;
      awaddr = place;
      wdata = value;
      #1 while (!(awready && wready)) @(negedge clk);
      @(negedge clk);
      awvalid = 0;
      wvalid = 0;
      while (!bvalid) @(negedge clk);
      @(negedge clk);
    end
  endtask
  task fetch(input [31:0] place);
    begin
      arvalid = 1;
      araddr = place;
      #1 while (!arready) @(negedge clk);
      @(negedge clk);
      arvalid = 0;
      while (!rvalid) @(negedge clk);
      found = rdata;
      @(negedge clk);
    end
  endtask
"""

_WISHBONE = """
  task access(input is_write, input [31:0] place, input [31:0] value);
    begin
      cyc = 1;
      we = is_write;
      adr = place >> 2;
      dat_w = value;
      @(negedge clk);
      while (!(ack || err)) @(negedge clk);
      cyc = 0;
      found = dat_r;
      @(negedge clk);
    end
  endtask
  task store(input [31:0] place, input [31:0] value);
    access(1, place, value);
  endtask
  task fetch(input [31:0] place);
    access(0, place, 0);
  endtask
"""

# A packet ends with C0; in it C0 is DB DC, and DB is DB DD. Its last four bytes are the CRC-32 of the others.
_PACKETS = """
  reg [7:0] got, reply [0:15];
  reg [15:0] sequence_number = 0;
  reg [31:0] crc;
  reg escaped, is_open = 0;
  integer bits, part, received;
  task add_to_crc(input [7:0] value);
    begin
      crc = crc ^ value;
      for (bits = 0; bits < 8; bits = bits + 1) crc = crc[0] ? (crc >> 1) ^ 32'hedb88320 : crc >> 1;
    end
  endtask
  task send_marked(input [7:0] value);
    if (value == 8'hc0) begin
      send(8'hdb);
      send(8'hdc);
    end else if (value == 8'hdb) begin
      send(8'hdb);
      send(8'hdd);
    end else send(value);
  endtask
  task send_bytes(input [31:0] value, input integer count);
    for (part = 0; part < count; part = part + 1) begin
      add_to_crc(value >> (8 * part));
      send_marked(value >> (8 * part));
    end
  endtask
  task ask(input [7:0] code, input [31:0] place, input [31:0] value);
    begin
      crc = 32'hffffffff;
      send_bytes(sequence_number, 2);
      send_bytes(code, 1);
      send_bytes(code == SYNC ? 0 : 1, 1);
      send_bytes(place, 4);
      if (code == WRITE) send_bytes(value, 4);
      send_bytes(~crc, 4);
      send(8'hc0);
      received = 0;
      escaped = 0;
      got = 0;
      while (!(got == 8'hc0 && received > 0)) begin
        receive(got);
        if (got == 8'hdb) escaped = 1;
        else if (got != 8'hc0) begin
          reply[received % 16] = !escaped ? got : got == 8'hdc ? 8'hc0 : 8'hdb;
          received = received + 1;
          escaped = 0;
        end
      end
      crc = 32'hffffffff;
      for (part = 0; part < received - 4; part = part + 1) add_to_crc(reply[part]);
      // Sequence, operation, data of a read, code, CRC.
      if (received != (code == READ ? 12 : 8) || {reply[1], reply[0]} != sequence_number
          || {reply[received-1], reply[received-2], reply[received-3], reply[received-4]} != ~crc
          || reply[received-5] != 0) begin
        wrong = wrong + 1;
        $display("address %h: refused, or the reply of %0d bytes is damaged", place, received);
      end
      found = {reply[6], reply[5], reply[4], reply[3]};
      sequence_number = sequence_number + 1;
    end
  endtask
  task store(input [31:0] place, input [31:0] value);
    begin
      if (!is_open) ask(SYNC, 0, 0);
      is_open = 1;
      ask(WRITE, place, value);
    end
  endtask
  task fetch(input [31:0] place);
    begin
      if (!is_open) ask(SYNC, 0, 0);
      is_open = 1;
      ask(READ, place, 0);
    end
  endtask
"""

_UART = """
  task send(input [7:0] value);
    begin
      rx = 0;
      repeat (DIVISOR) @(negedge clk);
      for (bits = 0; bits < 8; bits = bits + 1) begin
        rx = value[bits];
        repeat (DIVISOR) @(negedge clk);
      end
      rx = 1;
      repeat (DIVISOR) @(negedge clk);
    end
  endtask
  task receive(output [7:0] value);
    begin
      while (tx !== 0) @(negedge clk);
      repeat (DIVISOR / 2) @(negedge clk);
      for (bits = 0; bits < 8; bits = bits + 1) begin
        repeat (DIVISOR) @(negedge clk);
        value[bits] = tx;
      end
      repeat (DIVISOR) @(negedge clk);
    end
  endtask
"""

_SPI = """
  task exchange(input [7:0] sent, output [7:0] value);
    begin
      cs_n = 0;
      for (bits = 7; bits >= 0; bits = bits - 1) begin
        mosi = sent[bits];
        repeat (6) @(negedge clk);
        value[bits] = miso;
        sclk = 1;
        repeat (6) @(negedge clk);
        sclk = 0;
      end
    end
  endtask
  task send(input [7:0] value);
    exchange(value, got);
  endtask
  task receive(output [7:0] value);
    exchange(8'hc0, value);
  endtask
"""
_CODES = f"  localparam WRITE = {OP_WRITE}, READ = {OP_READ}, SYNC = {OP_SYNC}"


def _axi_lite(bits: int) -> str:
    return f"""\
  reg awvalid = 0, wvalid = 0, arvalid = 0;
  wire awready, wready, bvalid, arready, rvalid, irq;
  reg [{bits - 1}:0] awaddr = 0, araddr = 0;
  reg [31:0] wdata = 0;
  wire [31:0] rdata;
  wire [1:0] bresp, rresp;"""


def _wishbone(bits: int) -> str:
    return f"""\
  reg cyc = 0, we = 0;
  wire ack, err, irq;
  reg [{bits - 3}:0] adr = 0;
  reg [31:0] dat_w = 0;
  wire [31:0] dat_r;"""


def _uart(bits: int) -> str:
    return f"{_CODES}, DIVISOR = 8;\n  reg rx = 1;\n  wire tx;"


def _spi(bits: int) -> str:
    return f"{_CODES};\n  reg sclk = 0, cs_n = 1, mosi = 0;\n  wire miso;"


_AXI_PORTS = {
    name: name
    for name in (
        *("awvalid", "awready", "awaddr", "wvalid", "wready", "wdata", "bvalid", "bresp"),
        *("arvalid", "arready", "araddr", "rvalid", "rdata", "rresp"),
    )
} | {"wstrb": "4'hf", "bready": "1'b1", "rready": "1'b1", "awprot": "3'b0", "arprot": "3'b0"}
_WISHBONE_PORTS = {name: name for name in ("cyc", "we", "adr", "dat_w", "dat_r", "ack", "err")}
_WISHBONE_PORTS |= {"stb": "cyc", "sel": "4'hf"}


def _grouped(group: str, ports: dict[str, str]) -> dict[str, str]:
    return {f"{group}__{name}": value for name, value in ports.items()}


_AXI_LITE_LINK = BenchLink(_axi_lite, _grouped("s_axil", _AXI_PORTS) | {"irq": "irq"}, _AXI_LITE)
_WISHBONE_LINK = BenchLink(_wishbone, _grouped("wb", _WISHBONE_PORTS) | {"irq": "irq"}, _WISHBONE)
LINKS = {
    "axi-lite": _AXI_LITE_LINK,
    "axi-slverr": _AXI_LITE_LINK,
    "wishbone": _WISHBONE_LINK,
    "wishbone-err": _WISHBONE_LINK,
    "uart": BenchLink(
        _uart, _grouped("uart", {"rx": "rx", "tx": "tx", "divisor": "16'd8"}), _PACKETS + _UART, False
    ),
    "spi": BenchLink(
        _spi,
        _grouped("spi", {"sclk": "sclk", "cs_n": "cs_n", "mosi": "mosi", "miso": "miso", "miso_en": ""}),
        _PACKETS + _SPI,
        False,
    ),
}
"""By the kind of host port."""
