"""Errors of the tensor processor by their full texts; those of assembler and instructions are tested beside them."""

import json
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from tg2hdl_ir import Tg2hdlError, ToolMissingError, parse_kernel
from tg2hdl_ir.testing.samples import elementwise
from tg2hdl_tpu import Bundle, Config, Machine, Output, Region, Result, assemble, bench, run_bundle, timeline
from tg2hdl_tpu.cli import tpu
from tg2hdl_tpu.cli_common import no_boards, read_config
from tg2hdl_tpu.device import runtime
from tg2hdl_tpu.device.compile import compile_kernel
from tg2hdl_tpu.device.image import Image
from tg2hdl_tpu.hardware import simulate
from tg2hdl_tpu.hardware.cluster import run_cluster
from tg2hdl_tpu.isa import Trap, decode
from tg2hdl_tpu.kernels import make_kernel
from tg2hdl_tpu.machine import host_rows
from tg2hdl_tpu.profile import profile_script

CONFIG = Config(lanes=4, rows=2, columns=2, vmem_rows=16, imem_depth=24, xmem_rows=20)
ROW = np.zeros((1, 4), np.int32)


def command(*arguments):
    """The error that a command ends with."""
    raise CliRunner().invoke(tpu, [str(a) for a in arguments]).exception


def wrong_result():
    kernel = make_kernel("sum_16", Config())
    bench._checked(
        kernel, Result(Trap.NONE, 0, 1, 1, 1, {"r": np.zeros((1, 16), np.int32)}), "in the machine"
    )


def other_rows():
    """The host port shows other rows than the memory has."""
    results = run_bundle(make_kernel("sum_16", Config()).bundle)
    shown = 1 + np.zeros((2048, 16), np.int32)

    @contextmanager
    def hardware(config, engine):
        yield SimpleNamespace(
            run_bundle=lambda bundle: results, run_streamed=lambda bundle, results: (found, 1, shown, 0)
        )

    found = results
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulate, "Hardware", hardware)
        bench.bench(only=["sum_16"], engine="levelized")


def board():
    return pytest.importorskip("tg2hdl_tpu.board.driver")


def other_design(folder):
    (folder / "device.json").write_text(
        json.dumps({"id": "1122334455667788", "design": "net", "buffers": []})
    )
    board().read_config(folder)


def processor(reply=()):
    """A processor whose device answers each command with these words."""
    buffers = {"command": SimpleNamespace(shape=(100,))}
    device = lambda words: np.array(reply, np.uint32)  # noqa: E731
    found = board().Processor(SimpleNamespace(description=SimpleNamespace(buffers=buffers)), CONFIG)
    found.device = device
    return found


def of_text(folder, data):
    (folder / "p").write_bytes(data)
    Bundle.load(folder / "p")


def script(folder, text):
    (folder / "script.py").write_text(text)
    profile_script(folder / "script.py")


def long_trace(folder):
    (folder / "script.py").write_text(
        "from tg2hdl_tpu import *\nrun_bundle(assemble('add v[1], v[0], #10\\nhalt'))"
    )
    profiles = profile_script(folder / "script.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline, "MOST_EVENTS", 0)
        timeline.chrome_trace(profiles)


def cluster():
    """Cores that never end."""
    simulation = SimpleNamespace(
        reset=lambda: None,
        write_memory=lambda *a: None,
        step=lambda *a: None,
        set=lambda *a: None,
        get=lambda name: 0,
    )
    run_cluster(CONFIG, [assemble("jump 0", CONFIG)], limit=2, simulation=simulation)


def compiled(op="add", dtype="int32", config=CONFIG, size=8):
    return compile_kernel(elementwise(size, op, dtype), config, {})


def cast_to_int64():
    text = elementwise(8, "add", "int32").format().replace("= add int32", "= add int64")
    compile_kernel(parse_kernel(text), CONFIG, {})


def many_values():
    lines = ["kernel many", "  b0 out: int32[8] output", "  b1 x: int32[160]", "  RANGE i0 < 8 loop"]
    lines += ["    %0 = mul int32 i0, 20:int32"]
    lines += [
        f"    %{n} = add int32 %0, {n}:int32\n    %{20 + n} = LOAD int32 b1[%{n}]" for n in range(1, 20)
    ]
    lines += ["    %40 = add int32 %39, %38"]
    lines += [f"    %{n} = mul int32 %{n - 1}, %{78 - n}" for n in range(41, 57)]
    text = "\n".join([*lines, "    STORE int32 b0[i0] = %56", "  END i0"])
    compile_kernel(parse_kernel(text), CONFIG, {})


def register_array():
    compile_kernel(
        parse_kernel(
            """kernel array
  b0 out: int32[4] output
  b1 x: int32[4]
  r0: int32[4]
  RANGE i0 < 4 loop
    %0 = LOAD int32 b1[i0]
    %1 = GET int32 r0[%0]
    STORE int32 b0[i0] = %1
  END i0
"""
        ),
        CONFIG,
        {},
    )


def trapped():
    kernel = runtime.LoadedKernel(
        runtime.LoadedKernel.source(elementwise(8, "add", "int32"), runtime.TinytpuOptions())
    )
    words = SimpleNamespace(run=lambda starts: Result(Trap.ILLEGAL, 3, 9, 1, 1))
    kernel._run(words, {}, {}, [])


CASES = {
    "wrong result": (
        wrong_result,
        "error: the result is wrong (trap none)\n"
        "  at: sum_16, in the machine\n"
        "  hint: please report this with the configuration of the machine",
    ),
    "other machine": (
        lambda: bench.bench(Config(lanes=8)),
        "bad input: a machine of 8 lanes, 4x4, 1024 rows\n"
        "  at: bench\n"
        "  hint: the kernels are written for 16 lanes, 4x4 and 1,024 rows",
    ),
    "other rows": (
        other_rows,
        "error: the host port shows other results than the memory has\n"
        "  at: sum_16\n"
        "  hint: please report this with the configuration of the machine",
    ),
    "folder of another design": (
        other_design,
        "bad input: ~ has no processor\n  hint: give the folder that `tg2hdl tpu build -o` wrote",
    ),
    "no folder": (
        lambda: board().connect_processor("/dev/ttyUSB0"),
        "bad input: the machine of the processor at /dev/ttyUSB0 is not known\n"
        "  hint: give the folder that `tg2hdl tpu build -o` wrote",
    ),
    "refused command": (
        lambda: processor([0, 0, 0, 0, 1])._do(limit=1),
        "simulation: the processor refused a command\n  hint: reset the board, and connect again",
    ),
    "bundle of another processor": (
        lambda: processor().run_bundle(assemble("halt", Config(lanes=8, rows=2, columns=2))),
        "bad input: the bundle is for another configuration\n"
        "  at: bundle\n"
        "  hint: assemble it for "
        '{"lanes":4,"rows":2,"columns":2,"matrix_format":"int8","vmem_rows":16,"imem_depth":24,"xmem_rows":20,"issue_registers":0,"read_registers":0,"pre_registers":0,"alu_registers":0,"reduce_registers":0,"float":false,"functions":false,"divide":false,"zero_points":false,"output_stationary":false,"crossbar_lanes":0,"reduce_layers":0,"float_stages":5,"function_stages":16,"float_lanes":0,"function_lanes":1,"memory_latency":1,"memory_interval":1,"refresh_period":0,"refresh_cycles":0}',
    ),
    "limit of cycles": (
        lambda: processor().run_bundle(assemble("halt", CONFIG), limit=1 << 30),
        "bad input: a limit of 1,073,741,824 cycles\n  hint: use 1 to 16,777,215",
    ),
    "long program": (
        lambda: Bundle(CONFIG, (0,) * 25),
        "bad input: 25 instructions\n  at: bundle\n  hint: there is room for 24",
    ),
    "wide word": (
        lambda: Bundle(CONFIG, (1 << 200,)),
        "bad input: an instruction word beyond 128 bits\n"
        "  at: bundle\n"
        "  hint: give words that `encode` makes of instructions",
    ),
    "type of rows": (
        lambda: Bundle(CONFIG, data=(Region("vmem", 0, ROW.astype(np.int8)),)),
        "bad input: data of int8 (1, 4)\n  at: bundle\n  hint: use int32 rows of 4 lanes",
    ),
    "names of outputs": (
        lambda: Bundle(CONFIG, outputs=(Output("a b", "vmem", 0, 1),)),
        "bad input: an output is named 'a b'\n  at: bundle\n  hint: use different identifiers",
    ),
    "memory of an output": (
        lambda: Bundle(CONFIG, outputs=(Output("a", "ymem", 0, 1),)),
        "bad input: no memory is named 'ymem'\n  at: bundle\n  hint: use vmem or xmem",
    ),
    "neither text nor bundle": (
        lambda folder: of_text(folder, b"\xff"),
        "bad input: neither text nor a binary bundle: 'utf-8' codec can't decode byte 0xff in position "
        "0: invalid start byte\n"
        "  at: ~/p\n"
        "  hint: give a file that `tg2hdl tpu assemble` wrote",
    ),
    "no folder for a bitstream": (
        lambda: command("build", "--board", "ulx3s-85f"),
        "bad input: a bitstream needs a folder to go to\n  at: --board\n  hint: add -o DIR",
    ),
    "size of an array": (
        lambda: command("build", "--array", "4"),
        "bad input: an array of 4\n  at: --array\n  hint: write rows x columns, such as 4x4",
    ),
    "file in no folder": (
        lambda: command("isa", "--json", "/no/such/folder/isa.json"),
        "bad input: cannot write /no/such/folder/isa.json\n  hint: give a file in a folder that exists",
    ),
    "file of a machine": (
        lambda: read_config("none.json"),
        "bad input: no file is named none.json\n  at: --config\n  hint: name a JSON file, or ecp5",
    ),
    "packages of boards": (
        lambda: raised(no_boards(ImportError("no", name="tg2hdl_host.link"))),
        "missing tool: the Python package tg2hdl_host is not installed\n"
        '  hint: pip install "tg2hdl-tpu[board]"',
    ),
    "output-stationary floats": (
        lambda: Config(output_stationary=True, matrix_format="bf16"),
        "bad input: output_stationary with matrix_format bf16\n"
        "  at: Config\n"
        "  hint: its sums are integers: use int8 or int16, or leave output_stationary out",
    ),
    "layers of a reduction": (
        lambda: Config(reduce_layers=1, reduce_registers=1),
        "bad input: reduce_layers is 1, and reduce_registers 1\n"
        "  at: Config\n"
        "  hint: one layer needs a register after each level: use reduce_registers=5",
    ),
    "text of a machine": (
        lambda: Config.from_json("{"),
        "bad input: the configuration is not JSON: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)\n"
        "  at: Config\n"
        "  hint: give text that Config.to_json wrote",
    ),
    "type of an operation": (
        cast_to_int64,
        "unsupported: the tensor processor has no int64, for add\n"
        "  at: kernel elementwise\n"
        "  hint: cast to int32 or float32",
    ),
    "operation": (
        lambda: compiled("mod", "fp32"),
        "unsupported: the tensor processor has no operation mod of fp32\n"
        "  at: kernel elementwise\n"
        "  hint: express it with arithmetic, comparisons and where",
    ),
    "type of a buffer": (
        lambda: compiled("add", "fp64"),
        "unsupported: the tensor processor has no fp64\n"
        "  at: kernel elementwise\n"
        "  hint: cast to int32 or float32",
    ),
    "instructions": (
        lambda: compiled(config=Config(imem_depth=4)),
        "unsupported: 10 instructions for a machine that stores 4\n"
        "  at: kernel elementwise\n"
        "  hint: realize parts of the expression one by one",
    ),
    "rows": (
        many_values,
        "unsupported: more values at a time than the 16 rows of VMEM hold\n"
        "  at: kernel many\n"
        "  hint: realize parts of the expression one by one",
    ),
    "register array": (
        register_array,
        "unsupported: an array of registers at an index of data\n"
        "  at: kernel array\n"
        "  hint: unset PCONTIG and leave out UPCAST",
    ),
    "external memory": (
        lambda: Image(100).take(1 << 20),
        "capacity: 1048576 bytes are more than is free of the 6400 of external memory\n"
        "  at: device TINYTPU\n"
        "  hint: delete tensors, or realize fewer at a time",
    ),
    "trap": (
        trapped,
        "simulation: the tensor processor stopped with ILLEGAL at instruction 3\n"
        "  at: kernel elementwise\n"
        "  hint: an index of data outside of its tensor does that; otherwise please report the kernel",
    ),
    "rows of hardware": (
        lambda: runtime._on_hardware("levelized", None, {}, {0: 1 << 40}, []),
        "capacity: 1099511627776 rows of tensors; the simulated hardware has 65536\n  hint: use engine=isa",
    ),
    "memories of a cluster": (
        lambda: run_cluster(CONFIG, [Bundle(CONFIG, data=(Region("vmem", 0, ROW),))]),
        "bad input: the cores of a cluster share the external memory only\n"
        "  at: run_cluster\n"
        "  hint: place data and outputs in xmem",
    ),
    "cycles of a cluster": (
        cluster,
        "bad input: the cores run for more than 2 cycles\n"
        "  at: run_cluster\n"
        "  hint: give a larger limit if the work takes longer",
    ),
    "word": (
        lambda: decode(-1),
        "bad input: an instruction word has 128 bits\n"
        "  at: instruction\n"
        "  hint: give an integer from 0 to 2**128 - 1",
    ),
    "program of a machine": (
        lambda: Machine(CONFIG).load_program([0] * 25),
        "bad input: 25 instructions\n  at: program\n  hint: there is room for 24",
    ),
    "bundle of another machine": (
        lambda: Machine(CONFIG).load_bundle(assemble("halt", Config())),
        "bad input: the bundle is for another configuration\n"
        "  at: bundle\n"
        "  hint: make a Machine(bundle.config)",
    ),
    "rows of the host port": (
        lambda: host_rows(Bundle(CONFIG, (0,), data=(Region("xmem", 0, ROW),))),
        "bad input: only a program with neighbouring rows of the scratchpad comes through the host port\n"
        "  at: bundle\n"
        "  hint: put all data into one run of rows of vmem, or leave streamed=True out",
    ),
    "script without a program": (
        lambda folder: script(folder, "pass"),
        "bad input: the script ran no program of the tensor processor\n"
        "  at: ~/script.py\n"
        "  hint: use tg2hdl_tpu.Machine, run_bundle, or DEV=TINYTPU in front of the command, with its "
        "engine isa",
    ),
    "long trace": (
        long_trace,
        "bad input: a timeline of more than 0 events\n"
        "  at: run 1\n"
        "  hint: profile fewer cycles of each run with --limit, or a smaller input",
    ),
}


def raised(error):
    raise error


@pytest.mark.parametrize(("make", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(tmp_path, make, text):
    with pytest.raises(Tg2hdlError) as caught:
        make(tmp_path) if make.__code__.co_argcount else make()
    assert str(caught.value).replace(str(tmp_path), "~") == text


def test_figures_need_synthesis(monkeypatch):
    monkeypatch.setitem(sys.modules, "tg2hdl_synth", None)
    with pytest.raises(ToolMissingError) as caught:
        command("build")
    assert str(caught.value) == (
        'missing tool: the Python package tg2hdl-synth is not installed\n  hint: pip install "tg2hdl-tpu[synth]"'
    )
