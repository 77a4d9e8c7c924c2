"""The first lines of a program: `import tg2hdl` is quick, and tensors work without clang in any order of imports."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def run(program: str, folder) -> str:
    """Output of a program with an empty home and no programs to call."""
    kept = {k: os.environ[k] for k in ("PYTHONPATH", "SYSTEMROOT") if k in os.environ}
    variables = {**kept, "HOME": str(folder), "PATH": str(folder)}
    command = [sys.executable, "-W", "error", "-c", program]
    result = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_import_loads_neither_tinygrad_nor_amaranth_nor_numpy(tmp_path):
    program = "import sys, tg2hdl; print([m for m in ('tinygrad', 'amaranth', 'numpy') if m in sys.modules])"
    assert run(program, tmp_path) == "[]\n"


def test_dir_has_the_public_names_and_nothing_else():
    import tg2hdl

    assert [name for name in dir(tg2hdl) if not name.startswith("__")] == sorted(tg2hdl.__all__)
    assert "__version__" in dir(tg2hdl)


@pytest.mark.parametrize(
    "imports",
    ["import tg2hdl\nfrom tinygrad import Tensor", "from tinygrad import Tensor\nimport tg2hdl"],
    ids=["tg2hdl first", "tinygrad first"],
)
def test_tensors_work_before_anything_is_compiled(tmp_path, imports):
    program = (
        f"import numpy as np\n{imports}\n"
        "weight = (Tensor(np.arange(6).reshape(2, 3)) + 1).realize()\n"
        "accelerator = tg2hdl.compile(lambda x: x @ weight.cast('int32'), np.ones((1, 2), np.int32))\n"
        "print(accelerator.golden(np.ones((1, 2), np.int32)).tolist())"
    )
    assert run(program, tmp_path) == "[[5, 7, 9]]\n"


@pytest.mark.parametrize("gigabytes", [0.1, 0.15, 0.2])
def test_too_little_memory_is_named_before_python_fails_without_end(gigabytes, tmp_path):
    (tmp_path / "m.py").write_text(
        "import numpy as np\ndef model(x): return x + 1\nexample_inputs = (np.ones(4, np.int32),)\n"
    )
    started = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, (int({gigabytes} * 10**9),) * 2)\n"
        "import sys; sys.argv = ['tg2hdl', 'compile', 'm.py']\n"
        "from tg2hdl_start import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", started], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: not enough memory\n"
        f"  note: ulimit -v limits this process to {gigabytes:.1f} GB of address space\n"
        "  hint: raise the limit: a command takes 0.25 GB or more\n"
    )
