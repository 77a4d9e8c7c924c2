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


def compiler_named(name):
    return shutil.which(name) or pytest.skip(f"needs the compiler {name}")


def host(folder, identity=IDENTITY, call=False, defines=()):
    """The program, compiled with the driver."""
    compiler = compiler_named("cc")
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
        "-Wframe-larger-than=300",
        *defines,
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


@pytest.mark.parametrize(
    ("call", "words", "requests"), [(False, 255, 5), (False, 2, 6), (True, 255, 1), (True, 3, 1)]
)
def test_results_are_those_of_the_design(tmp_path, call, words, requests):
    """A call in one packet is one request."""
    inputs = np.random.default_rng(0).integers(-128, 128, (20, 1, 8), dtype=np.int8)
    device = FakeDevice(state=True)
    program = host(tmp_path, call=call, defines=[f"-DTG2HDL_PACKET_WORDS={words}"])
    code, results, text = carried(program, tmp_path, inputs, DisturbedLine(device))
    assert (code, text) == (0, "")
    np.testing.assert_array_equal(results, expected(inputs, True))
    # Five to begin with: a number, and who it is; then the number of the first run.
    assert device.requests == 5 + call + requests * len(inputs)


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


CPP_HOST = """
#include "registers.h"
#include "tg2hdl.h"

namespace {

struct Loop {
    tg2hdl_packets packets{};
    static int send(void *, const uint8_t *, uint32_t) { return 0; }
    static int receive(void *) { return -1; }
};

uint32_t registers[64];

}  // namespace

int main()
{
    static Loop loop;
    loop.packets.send = Loop::send;
    loop.packets.receive = Loop::receive;
    tg2hdl_bus bus = tg2hdl_over_packets(&loop.packets);
    if (tg2hdl_open(&bus) != TG2HDL_LINK_FAILED)
        return 1;
    uint8_t y[TG2HDL_CALL_OUTPUT_BYTES], x[TG2HDL_CALL_INPUT_BYTES] = {};
    if (tg2hdl_call(&loop.packets, x, y) != TG2HDL_LINK_FAILED)
        return 2;
    tg2hdl_bus mapped = tg2hdl_mapped(registers);
    for (uint8_t n = 0; n < 8; n++)
        x[n] = n;
    if (tg2hdl_load(&mapped, 0x80, x, 7) != 0 || registers[0x20] != 0x03020100 || registers[0x21] != 0x00060504)
        return 3;
    if (tg2hdl_fetch(&mapped, 0x80, y, 6) != 0 || y[5] != 5)
        return 4;
    registers[0x28 / 4] = 3;  // the code of a refusal
    return tg2hdl_set(&mapped, 0x40, -2) == 3 && registers[0x10] == 0xFFFFFFFE ? 0 : 5;
}
"""


@pytest.mark.parametrize("driver_is_cpp", [False, True])
def test_a_program_in_cpp_links(tmp_path, driver_is_cpp):
    """Also where the driver itself is compiled as C++, as some build systems do."""
    cpp, driver = compiler_named("c++"), Path(tg2hdl_host.__file__).parent / "c"
    (tmp_path / "registers.h").write_text(REGISTERS.format(identity=IDENTITY, call=CALL))
    (tmp_path / "main.cpp").write_text(CPP_HOST)
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic", f"-I{tmp_path}", f"-I{driver}"]
    compiler = [cpp, "-x", "c++", "-std=c++11"] if driver_is_cpp else [compiler_named("cc"), "-std=c99"]
    subprocess.run([*compiler, *warnings, "-c", driver / "tg2hdl.c", "-o", tmp_path / "driver.o"], check=True)
    program = [tmp_path / "main.cpp", tmp_path / "driver.o", "-o", tmp_path / "main"]
    subprocess.run([cpp, "-std=c++11", *warnings, *program], check=True)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


def test_a_packet_that_is_too_small_for_a_call_is_an_error(tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        host(tmp_path, call=True, defines=["-DTG2HDL_PACKET_WORDS=2"])


def test_a_run_in_between_is_noticed(tmp_path):
    """The driver assumes the number of its next run; after another one it asks again."""

    class Another(FakeDevice):
        def execute(self, body):
            if self.requests == 9:
                self.start(self.word(0x20))
                self.total -= int(
                    np.frombuffer(bytes(self.memory[0x80:0x88]), np.int8).astype(np.int64).sum()
                )
            return super().execute(body)

    inputs = np.random.default_rng(0).integers(-128, 128, (8, 1, 8), dtype=np.int8)
    device = Another(state=True)
    code, results, text = carried(host(tmp_path, call=True), tmp_path, inputs, DisturbedLine(device))
    assert (code, text) == (0, "")
    np.testing.assert_array_equal(results, expected(inputs, True))
    assert device.word(0x20) == 9
