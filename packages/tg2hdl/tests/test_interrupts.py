"""Ctrl-C prints one line, wherever it arrives: the model file sends it to its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

WHERE = {
    "while the file is loaded": "interrupt()",
    "while the model is captured": "def model(x): interrupt()",
    # Python prints an exception in a finalizer, and goes on.
    "in a finalizer": """
class Held:
    def __del__(self): interrupt()
def model(x):
    held = Held()
    del held
    time.sleep(2)
""",
    "while a thread works": """
def model(x):
    threading.Thread(target=time.sleep, args=(1,)).start()
    interrupt()
""",
    # A component that is made and never used, about which Amaranth warns.
    "while hardware is made": """
from amaranth.lib import wiring
class Unused(wiring.Component):
    def __init__(self): super().__init__({})
    def elaborate(self, platform): ...
def model(x):
    made = Unused()
    interrupt()
""",
    "twice": "def model(x):\n    try: interrupt()\n    finally: interrupt()",
}
FILE = """
import os, signal, threading, time
import numpy as np
example_inputs = (np.ones(4, np.int8),)
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
"""


STARTED = """
import os, runpy, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["tg2hdl", "--version"]
{start}
"""
STARTS = {
    "tg2hdl": "from tg2hdl_start import main; main()",
    "python -m tg2hdl": "runpy.run_module('tg2hdl', run_name='__main__')",
}


@pytest.mark.skipif(os.name == "nt", reason="os.kill ends a process there")
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    "module", ["tg2hdl.cli", "importlib.metadata", "click", "tg2hdl_ir.plugins.registry"]
)
def test_an_interrupt_while_python_imports_the_command_prints_its_line(start, module):
    program = STARTED.format(module=module, start=STARTS[start])
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (found.stdout, found.stderr, found.returncode) == ("", "stopped\n", 130)


@pytest.mark.skipif(os.name == "nt", reason="os.kill ends a process there")
@pytest.mark.parametrize("where", WHERE)
def test_an_interrupt_prints_its_line_alone(tmp_path, where):
    (tmp_path / "model.py").write_text(FILE + WHERE[where])
    command = [sys.executable, "-m", "tg2hdl", "compile", "model.py", "--json"]
    # Shells start what runs in the background with interrupts ignored.
    found = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (found.stdout, found.stderr) == ("", "stopped\n")
    # A shell says 130 for both: ended by the program, or by Python with the signal itself.
    assert found.returncode in (130, -2)
