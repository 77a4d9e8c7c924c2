"""Folders for other systems: their tools read them, and the design behind the wrapper has the bits of the model."""

import importlib
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.export import Export, export_name
from tg2hdl_ir import InputError, registry
from tg2hdl_sim.yosys import run_yosys

W = np.random.default_rng(1).integers(-128, 128, (18, 5), dtype=np.int8)
MODEL = """
import numpy as np

def model(x): return x * 3 + 1

example_inputs = (np.zeros((1, 6), np.int8),)
"""


def layer(x):
    return (x.cast("int32") @ Tensor(W).cast("int32")).relu()


def compiled(port):
    options = tg2hdl.CompileOptions(ports=(port,))
    return tg2hdl.compile(layer, np.zeros((1, 18), np.int8), options=options, name="Layer 1")


@pytest.fixture(scope="module")
def accelerator():
    return compiled("axi-lite")


@pytest.fixture(scope="module")
def folder(accelerator, tmp_path_factory):
    """Two exports of one design, which are in one system; the contents of the memories of `two` are files."""
    path = tmp_path_factory.mktemp("export")
    for name in ("one", "two"):
        accelerator.export("fusesoc", path / name, name=name, memory_files=name == "two")
    return path


def tool(name):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def run(*command, cwd):
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def verilog(folder, *names):
    return [folder / name / "rtl" / file for name in names for file in (f"{name}_core.v", f"{name}.v")]


def test_the_files_of_the_folder(folder):
    paths = sorted(str(p.relative_to(folder / "one")) for p in (folder / "one").rglob("*") if p.is_file())
    assert paths == [
        "constraints/one.sdc",
        "constraints/one.xdc",
        "driver/one.c",
        "driver/one.h",
        "driver/one.rs",
        "driver/one_registers.h",
        "one.core",
        "registers/one.html",
        "registers/one.md",
        "registers/one.rdl",
        "registers/one.svd",
        "rtl/one.v",
        "rtl/one_core.v",
        "rtl/one_pkg.vhd",
        "tb/one_tb.v",
        "weights/one_w0.bin",
        "weights/one_w0.h",
        "weights/one_w0.hex",
    ]


def test_the_wrapper_has_standard_names(folder):
    text = (folder / "one/rtl/one.v").read_text()
    ports = re.findall(r"^  (?:input|output) wire (?:\[\d+:0\] )?(\w+)", text, re.MULTILINE)
    assert {"aclk", "aresetn", "s_axil_awvalid", "s_axil_rdata", "irq"} <= set(ports)
    assert not [port for port in ports if "__" in port]
    assert '(* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 S_AXIL AWVALID" *)' in text
    assert "ASSOCIATED_RESET aresetn, ASSOCIATED_BUSIF S_AXIL" in text


def test_two_exports_have_no_name_in_common(folder):
    modules = [
        set(re.findall(r"^module (\w+)", "".join(p.read_text() for p in verilog(folder, name)), re.MULTILINE))
        for name in ("one", "two")
    ]
    assert all(module.startswith("one") for module in modules[0])
    assert len(modules[0]) == len(modules[1])
    assert not modules[0] & modules[1]


def test_verilator_has_no_warning(folder):
    command = [tool("verilator"), "--lint-only", "-Wall"]
    for name in ("one", "two"):
        assert run(*command, "--top", name, *verilog(folder, "one", "two"), cwd=folder) == ""


def test_the_testbench_passes_and_finds_a_changed_bit(folder, tmp_path):
    tool("iverilog")
    (core, wrapper), bench = verilog(folder, "one"), folder / "one/tb/one_tb.v"
    run("iverilog", "-g2012", "-o", tmp_path / "tb", core, wrapper, bench, cwd=tmp_path)
    # MAGIC, two halves of ID, ERROR; of each run three of the interrupt, CYCLES and five results.
    assert "PASSED: 40 values of 4 runs" in run("vvp", tmp_path / "tb", cwd=tmp_path)
    text = core.read_text()
    ((place, digits),) = re.findall(r"(memory_w0\[7\] = 8'h)([0-9a-f]{2});", text)
    changed = f"{place}{int(digits, 16) ^ 0x40:02x};"
    (tmp_path / "core.v").write_text(text.replace(f"{place}{digits};", changed))
    run("iverilog", "-g2012", "-o", tmp_path / "bad", "core.v", wrapper, bench, cwd=tmp_path)
    done = subprocess.run(["vvp", str(tmp_path / "bad")], capture_output=True, text=True)
    assert "FAILED" in done.stdout
    assert done.returncode != 0


@pytest.mark.parametrize(
    "port", ["wishbone", "axi-stream", "uart", "spi", pytest.param("native", marks=pytest.mark.slow)]
)
def test_the_testbench_of_each_port_passes(port, tmp_path):
    tool("iverilog")
    options = tg2hdl.CompileOptions(ports=(port,))
    design = tg2hdl.compile(lambda x: x * 3 + 1, np.zeros((1, 6), np.int8), options=options, name="net")
    design.export("fusesoc", tmp_path)
    run("iverilog", "-g2012", "-o", "bench", *tmp_path.glob("rtl/*.v"), "tb/net_tb.v", cwd=tmp_path)
    assert "PASSED" in run("vvp", "bench", cwd=tmp_path)


def test_fusesoc_runs_the_testbench(folder, tmp_path):
    """It copies the contents of memories to where the simulation runs."""
    pytest.importorskip("fusesoc")
    tool("iverilog")
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", folder, "run", "--target", "sim", "two"]
    assert "PASSED: 40 values of 4 runs" in run(*command, cwd=tmp_path)


def test_contents_of_memories_are_files_with_the_name(folder):
    text = (folder / "two/rtl/two_core.v").read_text()
    read = set(re.findall(r'\$readmemh\("(\w+\.hex)"', text))
    assert "two_memory_w0.hex" in read
    assert read == {path.name for path in (folder / "two/rtl").glob("*.hex")}
    assert (folder / "two/rtl/two_memory_w0.hex").read_text() == (
        folder / "two/weights/two_w0.hex"
    ).read_text()


def test_weights_in_each_form(folder):
    weights = folder / "one/weights"
    assert (weights / "one_w0.bin").read_bytes() == W.tobytes()
    text = (weights / "one_w0.h").read_text()
    assert [int(n) for n in re.findall(r"-?\d+", text[text.index("{") :])] == W.reshape(-1).tolist()
    core = (folder / "one/rtl/one_core.v").read_text()
    words = re.findall(r"memory_w0\[\d+\] = \d+'h([0-9a-f]+);", core)
    assert (weights / "one_w0.hex").read_text().split() == words


def test_systemrdl_compiler_reads_the_map(folder):
    systemrdl = pytest.importorskip("systemrdl")
    compiler = systemrdl.RDLCompiler()
    compiler.compile_file(str(folder / "one/registers/one.rdl"))
    found = {node.inst_name: node for node in compiler.elaborate().top.children()}
    header = (folder / "one/driver/one_registers.h").read_text()
    places = {name: int(value, 16) for name, value in re.findall(r"#define ONE_(\w+) 0x(\w+)u", header)}
    assert {name: found[name].absolute_address for name in ("START", "GO", "CYCLES")} == {
        "START": 0x18,
        "GO": 0x34,
        "CYCLES": 0x24,
    }
    for name, node in found.items():
        if name in places:
            assert node.absolute_address == places[name]
    assert found["BUFFER_X"].absolute_address == places["BUFFER_X_ADDRESS"]
    assert found["BUFFER_X"].get_property("mementries") == 5
    assert [field.inst_name for field in found["IRQ_PENDING"].fields()] == ["done", "error"]


def test_the_svd_and_the_page_have_all_registers(folder):
    tree = ET.parse(folder / "one/registers/one.svd")
    found = {r.findtext("name"): int(r.findtext("addressOffset"), 16) for r in tree.iter("register")}
    page = (folder / "one/registers/one.html").read_text()
    rows = dict(re.findall(r"<tr><td>0x(\w+)</td><td>([A-Z]\w+)</td>", page))
    assert len(rows) > 15
    for address, name in rows.items():
        assert found[name] == int(address, 16)
    assert found["BUFFER_OUTPUT[%s]"] % 32 == 0


def test_two_drivers_in_one_program(folder, tmp_path):
    program = """
#include "one.h"
#include "one_registers.h"
#include "two.h"
#include "two_registers.h"
#include <stdio.h>
static uint32_t registers[ONE_BUFFER_OUTPUT_ADDRESS / 4 + 64];
int main(void)
{
    one_bus a = one_mapped(registers);
    two_bus b = two_mapped(registers);
    registers[0] = 0x48324754u;
    registers[1] = 1;
    printf("%d %d\\n", one_open(&a), two_open(&b));
    registers[2] = (uint32_t)(ONE_ID & 0xFFFFFFFFu);
    registers[3] = (uint32_t)(ONE_ID >> 32);
    printf("%d %d\\n", one_open(&a), two_open(&b));
    return 0;
}
"""
    (tmp_path / "main.c").write_text(program)
    parts = [folder / name / "driver" / f"{name}.c" for name in ("one", "two")]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", *(f"-I{p.parent}" for p in parts)]
    run(tool("cc"), *flags, "-o", "main", "main.c", *parts, cwd=tmp_path)
    assert run(tmp_path / "main", cwd=tmp_path) == "-2 -2\n0 0\n"


def test_the_driver_is_called_from_rust_without_its_library(folder, tmp_path):
    rustc, compiler = tool("rustc"), tool("cc")
    source = """#![no_std]
#[path = "DRIVER/one.rs"]
pub mod one;
pub fn open(base: *mut u32) -> i32 {
    let bus = unsafe { one::one_mapped(base) };
    unsafe { one::one_open(&bus) }
}
"""
    program = """use net::one;
fn main() {
    let mut registers = [0u32; 64];
    registers[(one::ONE_MAGIC / 4) as usize] = 0x48324754;
    registers[(one::ONE_VERSION / 4) as usize] = 1;
    let wrong = net::open(registers.as_mut_ptr());
    registers[(one::ONE_ID_LOW / 4) as usize] = one::ONE_ID as u32;
    registers[(one::ONE_ID_HIGH / 4) as usize] = (one::ONE_ID >> 32) as u32;
    println!("{} {}", wrong, net::open(registers.as_mut_ptr()));
}
"""
    driver = folder / "one/driver"
    (tmp_path / "net.rs").write_text(source.replace("DRIVER", str(driver)))
    (tmp_path / "main.rs").write_text(program)
    flags = ["--edition=2021", "-D", "warnings"]
    run(compiler, "-c", f"-I{driver}", "-o", "one.o", driver / "one.c", cwd=tmp_path)
    run(rustc, *flags, "--crate-type=rlib", "net.rs", cwd=tmp_path)
    run(rustc, *flags, "--extern", "net=libnet.rlib", "-C", "link-arg=one.o", "main.rs", cwd=tmp_path)
    assert run(tmp_path / "main", cwd=tmp_path) == "-2 0\n"


def test_yosys_infers_the_multiplier_of_the_plan(folder, accelerator, tmp_path):
    """`benchmarks/export/inferred.py` has more designs, and Cyclone V."""
    for path in verilog(folder, "one"):
        shutil.copy(path, tmp_path)
    flow = "synth_xilinx -family xc7 -noiopad -top one -run begin:coarse"
    run_yosys(f"read_verilog one_core.v one.v\n{flow}\ntee -o stat.json stat -json\n", tmp_path)
    cells = json.loads((tmp_path / "stat.json").read_text())["design"]["num_cells_by_type"]
    assert cells["DSP48E1"] == max(kernel.multipliers for kernel in accelerator.kernels) == 1
    text = (tmp_path / "one_core.v").read_text()
    assert re.findall(r'ram_style = "(\w+)" \*\)\n  reg \[31:0\] (\w+)', text) == [
        ("distributed", "memory_output")
    ]


def test_ghdl_elaborates_the_component(folder, tmp_path):
    ghdl = tool("ghdl")
    package = folder / "one/rtl/one_pkg.vhd"
    inputs = re.findall(r"(\w+) : in std_logic(_vector)?", package.read_text())
    given = [f"{name} => (others => '0')" if vector else f"{name} => '0'" for name, vector in inputs]
    (tmp_path / "outer.vhd").write_text(
        "library ieee; use ieee.std_logic_1164.all; use work.one_pkg.all;\n"
        "entity outer is port (irq : out std_logic); end entity;\n"
        f"architecture rtl of outer is begin\n  u : one port map ({', '.join(given)}, irq => irq);\nend;\n"
    )
    run(ghdl, "-a", "--std=93", package, "outer.vhd", cwd=tmp_path)
    run(ghdl, "-e", "--std=93", "outer", cwd=tmp_path)


@pytest.fixture(scope="module")
def behind_wishbone():
    return compiled("wishbone")


def system_files(accelerator, system, name="net"):
    """Files of a system only, which need no Yosys."""
    return registry().call(registry().export(system), "files", Export(accelerator, name))


def ports_of(accelerator):
    return {"aclk", "aresetn", *(port.name for port in Export(accelerator, "net").ports)}


def test_the_ip_of_vivado_has_the_ports_and_files_of_the_folder(folder, accelerator):
    found = system_files(accelerator, "vivado", "one")
    root, space = (
        ET.fromstring(found["component.xml"]),
        {"s": ET.fromstring(found["component.xml"]).tag[1:-10]},
    )
    names = [e.text for e in root.findall(".//s:model/s:ports/s:port/s:name", space)]
    text = (folder / "one/rtl/one.v").read_text()
    assert names == re.findall(r"^  (?:input|output) wire (?:\[\d+:0\] )?(\w+)", text, re.MULTILINE)
    mapped = [e.text for e in root.findall(".//s:physicalPort/s:name", space)]
    assert sorted(mapped) == sorted(names)
    interfaces = [e.text for e in root.findall("s:busInterfaces/s:busInterface/s:name", space)]
    assert interfaces == ["S_AXIL", "aclk", "aresetn", "irq"]
    files = [e.text for e in root.findall(".//s:file/s:name", space)]
    assert len(files) == 5
    assert all((folder / "one" / file).is_file() for file in files)
    registers = {r.findtext("s:name", "", space): r for r in root.iterfind(".//s:register", space)}
    assert registers["GO"].findtext("s:addressOffset", "", space) == "0x34"
    paths = re.findall(r"\$here/([\w/]+\.(?:v|xdc))", found["one.tcl"])
    assert all((folder / "one" / path).is_file() for path in paths)


@pytest.mark.parametrize("port", ["axi-lite", "wishbone"])
def test_the_component_of_quartus_is_a_script_that_runs(port, folder, accelerator, behind_wishbone):
    """In an interpreter whose commands note their arguments."""
    tkinter = pytest.importorskip("tkinter")
    design = {"axi-lite": accelerator, "wishbone": behind_wishbone}[port]
    found = system_files(design, "quartus", "one")
    tcl, calls = tkinter.Tcl(), []
    tcl.eval("rename package _package")
    commands = set(re.findall(r"^(\w+)", found["one_hw.tcl"] + found["one.qsf"], re.MULTILINE))
    for name in commands:
        tcl.createcommand(name, lambda *arguments, name=name: calls.append((name, *arguments)))
    tcl.eval(found["one_hw.tcl"])
    assert {call[2] for call in calls if call[0] == "add_interface_port"} == ports_of(design)
    kinds = {call[1]: call[2:] for call in calls if call[0] == "add_interface"}
    bus = {"s_axil": ("axi4lite", "end")} if port == "axi-lite" else {"wb": ("conduit", "end")}
    assert kinds == bus | {"clock": ("clock", "end"), "reset": ("reset", "end"), "irq": ("interrupt", "end")}
    calls.clear()
    tcl.eval(found["one.qsf"])
    assigned = {call[2]: call[3] for call in calls if call[0] == "set_global_assignment"}
    assert (folder / "one" / assigned["VERILOG_FILE"]).is_file()
    assert (folder / "one" / assigned["SDC_FILE"]).is_file()


def test_the_component_of_amaranth_soc(behind_wishbone, tmp_path, monkeypatch):
    pytest.importorskip("amaranth_soc.wishbone")
    (tmp_path / "net_soc.py").write_text(system_files(behind_wishbone, "amaranth-soc")["net_soc.py"])
    monkeypatch.syspath_prepend(tmp_path)
    net = importlib.import_module("net_soc").Net()
    places = {r.path[0][0]: (r.start, r.end) for r in net.bus.memory_map.all_resources()}
    assert places["GO"] == (0x34, 0x38)
    assert places["BUFFER_X"][1] - places["BUFFER_X"][0] == 20
    text = rtlil.convert(net)
    instance = text[text.index("cell \\net ") :]
    connected = set(re.findall(r"connect \\(\w+) ", instance[: instance.index("  end\n")]))
    assert connected == ports_of(behind_wishbone) - {"wb_err"}


@pytest.mark.parametrize("port", ["wishbone", "axi-lite"])
def test_the_module_of_litex_is_python(port, accelerator, behind_wishbone):
    design = {"axi-lite": accelerator, "wishbone": behind_wishbone}[port]
    text = system_files(design, "litex")["net_litex.py"]
    compile(text, "net_litex.py", "exec")
    connected = set(re.findall(r"^            [io]_(\w+)=", text, re.MULTILINE))
    assert connected == ports_of(design)


def test_the_module_of_litex_finds_contents_of_memories_from_any_folder(behind_wishbone, tmp_path):
    text = registry().call(
        registry().export("litex"), "files", Export(behind_wishbone, "net", memory_files=True)
    )["net_litex.py"]
    assert "platform.add_source(str(located(path)))" in text
    (tmp_path / "rtl").mkdir()
    source, contents = tmp_path / "rtl/net_core.v", tmp_path / "rtl/net_w.hex"
    source.write_text('$readmemh("net_w.hex", w); $readmemh("other.hex", v);')
    contents.write_text("00")
    names = {"__file__": str(tmp_path / "net_litex.py"), "Path": Path}
    exec(text[text.index("def located") : text.index("class Net")], names)
    copy = names["located"](source)
    assert copy.read_text() == f'$readmemh("{contents.as_posix()}", w); $readmemh("other.hex", v);'
    assert copy.parent.parent == tmp_path != copy.parent
    compile(text, "net_litex.py", "exec")


@pytest.mark.parametrize(
    ("system", "port", "others"),
    [
        ("amaranth-soc", "axi-lite", "wishbone, wishbone-err"),
        ("litex", "axi-stream", "wishbone, wishbone-err, axi-lite, axi-slverr"),
    ],
)
def test_a_system_refuses_ports_that_it_has_no_connection_for(system, port, others, accelerator, tmp_path):
    design = accelerator if port == "axi-lite" else compiled(port)
    with pytest.raises(InputError) as error:
        design.export(system, tmp_path)
    assert str(error.value) == (
        f"bad input: {system} has no connection for the host port {port!r}\n"
        f"  hint: compile with one of: {others}"
    )


def test_names_of_exports(accelerator, tmp_path):
    assert export_name(None, accelerator.name) == "layer_1"
    assert export_name(None, "2__Signal") == "m2_signal"
    assert export_name(None, "entity") == "entity_design"
    for name in ("Two", "a__b", "a_", "1x", "entity"):
        with pytest.raises(InputError) as error:
            accelerator.export("fusesoc", tmp_path, name=name)
        assert str(error.value) == (
            f"bad input: {name!r} is not a name for an export\n"
            "  hint: lower-case letters, digits and single underscores, a letter first, and no keyword: my_net"
        )
    with pytest.raises(InputError, match="a clock of 0 MHz is none"):
        accelerator.export("fusesoc", tmp_path, clock=0)
    with pytest.raises(InputError, match="no export is named 'catapult'"):
        accelerator.export("catapult", tmp_path)


def test_the_command(tmp_path):
    (tmp_path / "net.py").write_text(MODEL)
    arguments = ["export", str(tmp_path / "net.py"), "--for", "fusesoc", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, [*arguments, "--clock", "200", "--json", str(tmp_path / "net.json")])
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "net.json").read_text())
    assert figures["ports"] == ["axi-lite"]
    assert all((tmp_path / "out" / file).is_file() for file in figures["files"])
    assert "-period 5.000 [get_ports aclk]" in (tmp_path / "out/constraints/net.xdc").read_text()
