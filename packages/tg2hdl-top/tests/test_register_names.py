"""Names of strangers in the documents of a register map."""

import re
import shutil
import subprocess

import pytest

from tg2hdl_ir import DType
from tg2hdl_lower import HostBuffer, HostShape, Layout
from tg2hdl_top.register_map import RegisterMap

NAMES = (
    "plain_1",
    "a|b",
    "<script>alert(1)</script>",
    "*/ int x; /*",
    "[link](javascript:x)",
    "`code` \\ and\nline",
    "_emphasis_",
    "A-b",
    "a_B",
    "é",
)


def register_map():
    buffers = tuple(
        HostBuffer(f"{name}", 4, 32, True, False, 1, Layout.linear(4), DType.UINT32, name, "input", (4,))
        for name in NAMES
    )
    output = HostBuffer("y", 4, 32, False, True, 1, Layout.linear(4), DType.UINT32, "y", "output", (4,))
    names = tuple(b.name for b in buffers)
    return RegisterMap(
        HostShape(True, 1, (), (*buffers, output), (0,), names, ("y",), "<b>*/program", "0123456789abcdef")
    )


def test_names_are_neither_markup_nor_html_on_the_page():
    page = register_map().page()
    rows = [line for line in page.splitlines() if line.startswith("| 0x") and "| input |" in line]
    assert [re.split(r" (?<!\\)\| ", row)[2] for row in rows] == [
        "plain_1",
        r"a\|b",
        r"&lt;script&gt;alert\(1\)&lt;/script&gt;",
        r"\*/ int x; /\*",
        r"\[link\]\(javascript:x\)",
        r"\`code\` \\ and line",
        r"\_emphasis\_",
        "A-b",
        "a_B",
        "é",
    ]
    assert page.startswith("# Registers of &lt;b&gt;\\*/program\n")


def test_the_header_has_a_macro_for_each_name():
    header = register_map().c_header()
    names = re.findall(r"^#define (\w+) ", header, re.MULTILINE)
    assert len(set(names)) == len(names)
    assert {"TG2HDL_BUFFER_A_B_ADDRESS", "TG2HDL_BUFFER_A_B_2_ADDRESS", "TG2HDL_BUFFER_A_B_3_ADDRESS"} <= set(
        names
    )
    without = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    assert all(line == "" or line[0] in "#}e " for line in without.splitlines())


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_the_header_compiles(tmp_path):
    (tmp_path / "registers.h").write_text(register_map().c_header())
    (tmp_path / "main.c").write_text('#include "registers.h"\nint main(void) { return 0; }\n')
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "main.c", "-o", "main.o"]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
