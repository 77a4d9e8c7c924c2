"""The C driver, compiled and run against the device of the tests, also over a disturbed line."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tg2hdl_host
from fake_device import DisturbedLine, FakeDevice

HERE = Path(__file__).parent
REGISTERS = """
#define TG2HDL_ID 0x{identity:x}ULL
#define TG2HDL_MAGIC 0x00u
#define TG2HDL_START 0x18u
#define TG2HDL_STATUS 0x1cu
#define TG2HDL_RUNS 0x20u
#define TG2HDL_MAX_CYCLES 100u
#define TG2HDL_ERROR 0x28u
#define TG2HDL_BUFFER_X_ADDRESS 0x80u
#define TG2HDL_BUFFER_X_BYTES 8u
#define TG2HDL_BUFFER_OUTPUT_ADDRESS 0xa0u
#define TG2HDL_BUFFER_OUTPUT_BYTES 12u
{call}
enum tg2hdl_code {{ TG2HDL_CODE_OK, TG2HDL_CODE_STALE = 5 }};
"""
CALL = """
#define TG2HDL_CALL_INPUT_BYTES 8u
#define TG2HDL_CALL_ADDRESS 0xa0u
#define TG2HDL_CALL_OUTPUT_BYTES 12u
"""
IDENTITY = 0x1122334455667788


def host(folder, identity=IDENTITY, call=False):
    """The program, compiled with the driver."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    driver = Path(tg2hdl_host.__file__).parent / "c"
    (folder / "registers.h").write_text(REGISTERS.format(identity=identity, call=CALL if call else ""))
    flags = [
        "-std=c99",
        "-D_POSIX_C_SOURCE=200809L",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Werror",
        "-pedantic",
    ]
    sources = [HERE / "c_host.c", driver / "tg2hdl.c"]
    command = [compiler, *flags, f"-I{folder}", f"-I{driver}", *sources, "-o", folder / "host"]
    subprocess.run(command, check=True)
    return folder / "host"


def carried(program, folder, inputs, line, timeout="30000"):
    """Run the program with its link on a line; its exit code, results, and what it says."""
    (folder / "inputs").write_bytes(inputs.tobytes())
    command = [program, folder / "inputs", folder / "results", timeout]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        while data := os.read(process.stdout.fileno(), 4096):
            line.write(data)
            while answer := line.read(0):
                process.stdin.write(answer)
                process.stdin.flush()
        text = process.stderr.read().decode()
    results = np.frombuffer((folder / "results").read_bytes(), "<i4").reshape(-1, 3)
    return process.returncode, results, text


def expected(inputs, state):
    sums = inputs.astype(np.int64).sum(axis=(1, 2))
    return (np.cumsum(sums) if state else sums)[:, None] * [1, 2, 3]


@pytest.mark.parametrize(("call", "requests"), [(False, 5), (True, 2)])
def test_results_are_those_of_the_design(tmp_path, call, requests):
    """A call in one packet saves three requests."""
    inputs = np.random.default_rng(0).integers(-128, 128, (20, 1, 8), dtype=np.int8)
    device = FakeDevice(state=True)
    code, results, text = carried(host(tmp_path, call=call), tmp_path, inputs, DisturbedLine(device))
    assert (code, text) == (0, "")
    np.testing.assert_array_equal(results, expected(inputs, True))
    assert device.requests == 5 + requests * len(inputs)  # five to begin with: a number, and who it is


@pytest.mark.parametrize(("call", "probability"), [(False, 0.1), (True, 0.15)])
def test_no_disturbance_gives_a_wrong_result(tmp_path, call, probability):
    """A run happens once also where its answer is lost: the device adds up."""
    program, inputs = (
        host(tmp_path, call=call),
        np.random.default_rng(1).integers(-128, 128, (15, 1, 8), dtype=np.int8),
    )
    line = DisturbedLine(FakeDevice(state=True), probability, seed=0)
    code, results, text = carried(program, tmp_path, inputs, line, timeout="300")
    assert line.faults > 10
    assert (code, text) == (0, "")
    np.testing.assert_array_equal(results, expected(inputs, True))


def test_another_design_is_refused(tmp_path):
    inputs = np.zeros((1, 1, 8), np.int8)
    code, results, text = carried(host(tmp_path, IDENTITY + 1), tmp_path, inputs, DisturbedLine(FakeDevice()))
    assert (code, text, results.size) == (1, "open: -2\n", 0)


def test_memory_images(tmp_path):
    program, other = host(tmp_path), tmp_path / "other"
    other.mkdir()
    contents = np.random.default_rng(0).integers(0, 256, 1000, dtype=np.uint8).tobytes()
    image = tg2hdl_host.MemoryImage(f"{IDENTITY:016x}", 1024, contents).to_bytes()

    def checked(program, data):
        (tmp_path / "image").write_bytes(data)
        command = [program, "-", tmp_path / "image", tmp_path / "contents"]
        return subprocess.run(command, check=False).returncode, (tmp_path / "contents").read_bytes()

    assert checked(program, image) == (0, contents)
    for place in (3, 12, 20, 33, 64, 700):
        damaged = image[:place] + bytes((image[place] ^ 0x10,)) + image[place + 1 :]
        assert checked(program, damaged) == (4, b"")
    for cut in (b"", image[:63], image[:-1], image + b"x"):
        assert checked(program, cut) == (4, b"")
    assert checked(host(other, identity=IDENTITY + 1), image) == (2, b"")
