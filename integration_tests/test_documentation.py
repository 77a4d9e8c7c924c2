"""Every Python block of the READMEs and docs runs; every command that the README shows exists and works."""

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import tomllib

import numpy as np
import pytest
from environments import ROOT

FILES = sorted(
    {
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("packages/*/README.md"),
    }
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODEL = """
import numpy as np
def model(x): return (x.cast("int32") * 3).relu().sum()
example_inputs = (np.zeros((4, 8), np.int8),)
"""


# What the pages say in words before their code: the arrays, designs and programs at hand.
ASSUMED = {
    "tg2hdl-ir": """
import numpy as np
weights, x = np.arange(6, dtype=np.int32), np.arange(3, dtype=np.int32)
""",
    "tg2hdl-sim": """
import numpy as np
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out

class Top(wiring.Component):
    x: In(wiring.Signature({"addr": Out(10), "data": Out(8), "en": Out(1)}))
    y: Out(wiring.Signature({"addr": In(7), "data": Out(8)}))
    start: In(1)
    done: Out(1)

    def __init__(self):
        self.weights_memory = MemoryData(shape=8, depth=16, init=[])
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.pixels = pixels = Memory(shape=8, depth=1024, init=[])
        m.submodules.weights = Memory(self.weights_memory)
        write, read = pixels.write_port(), pixels.read_port()
        m.d.comb += [write.addr.eq(self.x.addr), write.data.eq(self.x.data), write.en.eq(self.x.en)]
        m.d.comb += [read.addr.eq(self.y.addr), self.y.data.eq(read.data)]
        m.submodules.weights.read_port(), m.submodules.weights.write_port()
        m.d.sync += self.done.eq(self.start)
        return m

top, array, pixels = Top(), np.zeros(16, np.uint8), np.zeros(784, np.uint8)
""",
    # The design that the page connects to, simulated in place of the board at its port.
    "tg2hdl-host": """
import subprocess, sys
from pathlib import Path
import numpy as np
import tg2hdl_host
Path("digits.py").write_text('''
import numpy as np
from tinygrad import Tensor
class Model:
    def __init__(self): self.scale = Tensor(np.full(4, 3, np.int32))
    def __call__(self, x): return x * self.scale
model = Model()
example_inputs = (np.zeros(4, np.int32),)
''')
build = [sys.executable, "-m", "tg2hdl", "build", "digits.py", "--weights", "loadable", "-o", "build/digits"]
subprocess.run(build, check=True)
on_board = tg2hdl_host.connect
tg2hdl_host.connect = lambda port, folder: on_board(f"simulate:{folder}", folder)
image = np.arange(4, dtype=np.int32)
images, weights = [image, image + 1], {"scale": np.full(4, 5, np.int32)}
""",
    "tg2hdl-synth": """
import numpy as np
import tg2hdl
accelerator = tg2hdl.compile(lambda x: x + 1, np.zeros(4, np.int8))
""",
    "tg2hdl-top": """
import numpy as np
from tg2hdl_backend import capture
array = np.zeros(4, np.int8)
program = capture(lambda x: x + 1, array).program
""",
}


def blocks(path, language):
    return [text for kind, text in BLOCK.findall(path.read_text()) if kind == language]


def run(command, cwd):
    environment = {**os.environ, "COLUMNS": "120"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "path", [p for p in FILES if blocks(p, "python")], ids=lambda p: str(p.relative_to(ROOT))
)
def test_python_blocks_run(path, tmp_path):
    # The blocks of a page continue each other.
    script = tmp_path / "blocks.py"
    script.write_text("\n".join([ASSUMED.get(path.parent.name, ""), *blocks(path, "python")]))
    result = run([sys.executable, "-W", "error", str(script)], tmp_path)
    assert result.returncode == 0, result.stderr


def test_readme_shows_the_two_commands_and_hatch_knows_them():
    text = "\n".join(blocks(ROOT / "README.md", "console"))
    scripts = tomllib.loads((ROOT / "hatch.toml").read_text())["envs"]["default"]["scripts"]
    assert re.findall(r"hatch run (\w+)$", text, re.MULTILINE) == ["demo", "test"]
    assert scripts["demo"].startswith("tg2hdl demo")
    assert "pytest" in scripts["test"]


def test_commands_of_the_readme_work(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    np.savez(tmp_path / "inputs.npz", np.ones((3, 4, 8), np.int8))
    text = "\n".join(blocks(ROOT / "README.md", "console"))
    commands = [line for line in text.splitlines() if line.startswith("tg2hdl ")]
    assert len(commands) >= 3
    for line in commands:
        result = run([sys.executable, "-m", *shlex.split(line)], tmp_path)
        assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
    assert "module" in (tmp_path / "build/model/model.v").read_text()
    assert (tmp_path / "run.vcd").stat().st_size > 100


def test_table_of_packages_is_complete():
    names = {folder.name for folder in (ROOT / "packages").iterdir()}
    linked = set(re.findall(r"\]\(packages/([\w-]+)\)", (ROOT / "README.md").read_text()))
    assert linked == names


def test_relative_links_lead_somewhere():
    missing = []
    for path in FILES:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text()):
            if not (path.parent / target).exists():
                missing.append(f"{path.relative_to(ROOT)}: {target}")
    assert missing == []


@pytest.mark.parametrize("folder", sorted((ROOT / "packages").iterdir()), ids=lambda f: f.name)
def test_package_has_what_every_package_has(folder):
    metadata = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert metadata["license"] == "BSD-2-Clause"
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    newest = re.search(r"^## (\S+)", (folder / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert metadata["dynamic"] == ["version"]
    assert importlib.metadata.version(folder.name) == newest
    assert (folder / "src" / folder.name.replace("-", "_") / "py.typed").exists()
    assert list((folder / "tests").glob("test_*.py"))
