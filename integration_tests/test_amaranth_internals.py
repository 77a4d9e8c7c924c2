"""Amaranth's private modules are used in named files alone, and these say what is wrong when Amaranth moves them."""

import importlib.metadata
import re
import subprocess
import sys

import pytest
from environments import ROOT

ALLOWED = {
    "tg2hdl-fp32/src/tg2hdl_fp32/testing/amaranth_internals.py": (
        "tg2hdl_fp32.testing.amaranth_internals",
        "Amaranth VERSION has moved internals that tg2hdl_fp32.testing needs (cannot import name 'PortDirection' from "
        "'moved' (unknown location)); install amaranth>=0.5.4,<0.6",
    ),
    "tg2hdl-sim/src/tg2hdl_sim/amaranth_internals.py": (
        "tg2hdl_sim.amaranth_internals",
        "Amaranth VERSION has moved internals that tg2hdl-sim needs (cannot import name 'Design' from 'moved' (unknown "
        "location)); install amaranth>=0.5.4,<0.6",
    ),
}
PRIVATE = re.compile(
    r"^\s*(?:from amaranth[\w.]*\._|from amaranth[\w.]* import _|import amaranth[\w.]*\._)", re.MULTILINE
)


def test_private_modules_are_imported_in_one_file_each_of_compiler_and_float_cores():
    sources = {p.relative_to(ROOT / "packages").as_posix(): p for p in ROOT.glob("packages/*/src/**/*.py")}
    assert {name for name, path in sources.items() if PRIVATE.search(path.read_text())} == set(ALLOWED)


@pytest.mark.parametrize(("module", "text"), ALLOWED.values())
def test_an_amaranth_that_moved_them_is_named(module, text):
    program = (
        "import sys, types; import amaranth.hdl; sys.modules['amaranth.hdl._ir'] = types.ModuleType('moved')\n"
        f"import {module}"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    version = importlib.metadata.version("amaranth")
    assert result.stderr.splitlines()[-1] == "ImportError: " + text.replace("VERSION", version)
