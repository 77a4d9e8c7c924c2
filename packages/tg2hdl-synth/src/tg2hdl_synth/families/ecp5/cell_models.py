"""Simulation models of the ECP5 cells that yosys has only as black boxes: DP16KD and MULT18X18D.

Each memory gets a module of its own, with its contents.  The address of a word of w bits is in the bits of ``AD`` above
those that count within a word; 18 and 36 bits have a write enable for each 9 bits in the lowest address bits instead.
Both ports of a memory must have the same width.
"""

from __future__ import annotations

from typing import Any

from tg2hdl_ir import UnsupportedError

__all__ = ["bind_models"]

_VECTORS = {"DI": 18, "AD": 14, "DO": 18, "CS": 3}
_PINS = ("CE", "OCE", "CLK", "WE", "RST")
_MULTIPLIER = """\
module multiplier_model(input CLK0, input [17:0] A, input [17:0] B, input SIGNEDA, SIGNEDB, output [35:0] P);
  parameter REGISTERED = 0;
  wire signed [35:0] product;
  generate
    if (REGISTERED) begin
      reg [17:0] a = 0, b = 0;
      reg [35:0] p = 0;
      assign product = $signed({SIGNEDA & a[17], a}) * $signed({SIGNEDB & b[17], b});
      always @(posedge CLK0) begin
        a <= A;
        b <= B;
        p <= product;
      end
      assign P = p;
    end else begin
      assign product = $signed({SIGNEDA & A[17], A}) * $signed({SIGNEDB & B[17], B});
      assign P = product;
    end
  endgenerate
endmodule
"""

_SHIFT = {1: 0, 2: 1, 4: 2, 9: 3, 18: 4, 36: 5}


def _memory_model(name: str, cell: dict[str, Any]) -> str:
    """Verilog of a module with the ports of a DP16KD that behaves as one cell of a netlist.

    Raises
    ------
    UnsupportedError
        When the two ports have different widths.
    """
    ports = [port for port in "AB" if _used(cell, port)]
    widths = {_width(cell, port) for port in ports}
    if len(widths) != 1:
        raise UnsupportedError(
            f"a block RAM with ports of {sorted(widths)} bits has no simulation model",
            where=name,
            hint="report the design: yosys gives both ports one width",
        )
    (width,) = widths
    words = 16384 >> _SHIFT[width]
    lines = [f"  reg [{width - 1}:0] mem [0:{words - 1}];", "  initial begin"]
    lines += [f"    mem[{n}] = {width}'h{value:x};" for n, value in enumerate(_contents(cell, width, words))]
    lines.append("  end")
    for port in ports:
        lines += _port(cell, port, width)
    both = "".join(
        f"input [17:0] DI{p}, input [13:0] AD{p}, input CE{p}, OCE{p}, CLK{p}, WE{p}, RST{p}, "
        f"input [2:0] CS{p}, output [17:0] DO{p}, "
        for p in "AB"
    )
    return f"module {name}({both.rstrip(', ')});\n" + "\n".join(lines) + "\nendmodule\n"


def _used(cell: dict[str, Any], port: str) -> bool:
    return isinstance(cell["connections"].get(f"CLK{port}", ["0"])[0], int)


def _width(cell: dict[str, Any], port: str) -> int:
    return int(cell["parameters"][f"DATA_WIDTH_{port}"], 2)


def _contents(cell: dict[str, Any], width: int, words: int) -> list[int]:
    """Words at power on: 16 groups of 18 bits, padded to 20, in each of 64 parameters."""
    halves = []
    for slot in range(64):
        bits = int(str(cell["parameters"].get(f"INITVAL_{slot:02X}", "0")).replace("x", "0"), 2)
        halves += [(bits >> (20 * n)) & 0x3FFFF for n in range(16)]
    if width == 36:
        return [halves[2 * n] | halves[2 * n + 1] << 18 for n in range(words)]
    per_half = {18: 1, 9: 2, 4: 4, 2: 8, 1: 16}[width]
    result = []
    for n in range(words):
        half, inner = divmod(n, per_half)
        byte, rest = divmod(inner, max(1, per_half // 2))
        result.append((halves[half] >> (9 * byte + width * rest)) & ((1 << width) - 1))
    return result


def _port(cell: dict[str, Any], port: str, width: int) -> list[str]:
    address = f"AD{port}[13:{_SHIFT[width]}]"
    data = "{DIB, DIA}" if width == 36 else f"DI{port}[{width - 1}:0]"
    lines = [f"  reg [{width - 1}:0] read{port} = 0;", f"  always @(posedge CLK{port}) if (CE{port}) begin"]
    if width >= 18:
        lines += [
            f"    if (WE{port} & AD{port}[{n}]) mem[{address}][{9 * n + 8}:{9 * n}] <= {_data_part(data, port, n)};"
            for n in range(width // 9)
        ]
    else:
        lines.append(f"    if (WE{port}) mem[{address}] <= {data};")
    lines += [f"    if (!WE{port}) read{port} <= mem[{address}];", "  end"]
    out = f"read{port}"
    if cell["parameters"].get(f"REGMODE_{port}") == "OUTREG":
        lines += [
            f"  reg [{width - 1}:0] output{port} = 0;",
            f"  always @(posedge CLK{port}) if (OCE{port}) output{port} <= read{port};",
        ]
        out = f"output{port}"
    if width < 36:
        lines.append(f"  assign DO{port} = {out};")
    elif port == "B":
        lines += [f"  assign DOA = {out}[17:0];", f"  assign DOB = {out}[35:18];"]
    return lines


def _data_part(data: str, port: str, group: int) -> str:
    """The 9 bits of write data that an enable covers."""
    if data.startswith("{"):
        return f"DI{'AB'[group // 2]}[{9 * (group % 2) + 8}:{9 * (group % 2)}]"
    return f"DI{port}[{9 * group + 8}:{9 * group}]"


def bind_models(module: dict[str, Any]) -> str:
    """Give multipliers and memories modules with behaviour; returns their Verilog."""
    models = [_MULTIPLIER]
    for number, cell in enumerate(module["cells"].values()):
        if cell["type"] == "DP16KD":
            kind = f"memory_model{number}"
            models.append(_memory_model(kind, cell))
            _join(cell, {f"{pin}{side}": width for side in "AB" for pin, width in _VECTORS.items()})
            _keep(cell, [f"{pin}{side}" for side in "AB" for pin in (*_VECTORS, *_PINS)])
            cell["type"], cell["parameters"] = kind, {}
        elif cell["type"] == "MULT18X18D":
            registered = cell["parameters"].get("REG_OUTPUT_CLK", "NONE") == "CLK0"
            _join(cell, {"A": 18, "B": 18, "P": 36})
            _keep(cell, ["CLK0", "A", "B", "SIGNEDA", "SIGNEDB", "P"])
            cell["type"], cell["parameters"] = "multiplier_model", {"REGISTERED": f"{int(registered):032b}"}
    return "".join(models)


def _join(cell: dict[str, Any], vectors: dict[str, int]) -> None:
    """Collect pins with numbers into vectors; unconnected inputs are 0."""
    pins, directions = cell["connections"], cell["port_directions"]
    for vector, width in vectors.items():
        bits = [(pins.pop(f"{vector}{n}", None) or ["x"])[0] for n in range(width)]
        for n in range(width):
            direction = directions.pop(f"{vector}{n}", "input")
        if direction == "input":
            bits = ["0" if bit == "x" else bit for bit in bits]
        pins[vector], directions[vector] = bits, direction


def _keep(cell: dict[str, Any], names: list[str]) -> None:
    for table in ("connections", "port_directions"):
        cell[table] = {pin: value for pin, value in cell[table].items() if pin in names}
