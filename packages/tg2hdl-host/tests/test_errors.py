"""Errors of the driver by their full texts; those of threads and memory images are tested beside their features."""

import json
import socket
import sys
from importlib.util import find_spec
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest

import tg2hdl_host
from fake_device import DisturbedLine, FakeDevice
from tg2hdl_host import (
    Buffer,
    ConnectionFailedError,
    Description,
    Device,
    LinkError,
    MemoryImage,
    RefusedError,
    UnfitInputError,
    WrongDesignError,
    WrongResultError,
    documents,
    selftest,
)
from tg2hdl_host.arrays import read_array, read_arrays
from tg2hdl_host.border import Border
from tg2hdl_host.description import _loop, dtype_named, read_files
from tg2hdl_host.generation import Tensor, feedback_of
from tg2hdl_host.link import Fault
from tg2hdl_host.served import greet, token_file, token_of
from tg2hdl_host.spi import SpiTransport, open_spi

X = np.arange(8, dtype=np.int8)[None]
FILES = {"id": "1122334455667788", "design": "fake"}
BUFFER = Buffer("x", "input", np.dtype(np.int8), (1, 8), 0x80, True, False)
TENSOR = Tensor("x", (1, 8), np.dtype(np.int8))
SCALE = {"scale": [0.5], "offset": 0.0, "zero": 0, "low": -128, "high": 127}
DESCRIPTION = {
    "design": "fake",
    "id": "1122334455667788",
    "kernels": 1,
    "cycles": 100,
    "buffers": [["x", "input", "int8", [1, 8], 0x80, "w"], ["y", "output", "int32", [3], 0xA0, "r"]],
    "outputs": ["y"],
    "state": False,
    "variables": [["n", 1, 8]],
}
AGAIN = "hint: build the folder again with `tg2hdl build`"
FOLDER = "hint: give the folder that `tg2hdl build` wrote"
VECTORS = "hint: build the design again, with vectors"


def opened(board=None, **options):
    return Device(DisturbedLine(board or FakeDevice()), timeout=5, **options)


def quantized():
    return opened(files=FILES | {"borders": {"inputs": [SCALE], "outputs": [SCALE]}})


def two_inputs():
    return opened(files=FILES | {"inputs": ["gone", "x"]})


def told(**changes):
    """A device whose description has other entries."""
    board = FakeDevice()
    raw = json.dumps(DESCRIPTION | changes).encode()
    board.memory[board.word(0x10) :] = raw + bytes(-len(raw) % 4)
    board.put(0x14, len(raw))
    return opened(board)


def with_state():
    """A device with a state of two elements, in 0x0C of its memory."""
    buffers = [*DESCRIPTION["buffers"], ["s", "state", "int8", [2], 0xB0, "rw"]]
    return told(buffers=buffers, states=[["s", -4, 3]])


def other_magic():
    board = FakeDevice()
    board.put(0, 0)
    return opened(board)


def described(**changes):
    return Description.parse(json.dumps(DESCRIPTION | changes).encode())


def description(fault):
    return f"""the description of the design cannot be read: ValueError({fault!r})
  at: identity
  hint: use a driver of the version that the design was made with"""


def scales(fault):
    return f"the scales in device.json cannot be read: ValueError({fault!r})\n  at: identity\n  {AGAIN}"


def check_vectors(folder, **arrays):
    np.savez(folder / "vectors.npz", **arrays)
    selftest(opened(), folder)


def arrays_of_one_array(folder):
    np.save(folder / "a.npy", X)
    read_arrays(folder / "a.npy")


def array_of_arrays(folder):
    np.savez(folder / "a.npz", x=X)
    read_array(folder / "a.npz")


def files_of(folder, text):
    (folder / "device.json").write_text(text)
    read_files(folder)


def image_of(identity, size):
    return MemoryImage(f"{identity:016x}", 4, bytes(size))


def unreadable_token(folder):
    token_file(folder, 7).write_bytes(b"\xff")
    token_of("socket://localhost:7", folder)


def silent_server(folder):
    greet("socket://host:7", "secret", lambda data: None, lambda seconds: bytes(5000))


def gone(data):
    raise OSError(5, "Input/output error")


def failed(fault):
    raise fault.error("fake", 6)


SPI = "hint: give spi:BUS.CHIP, e.g. spi:0.0 for /dev/spidev0.0"
# A function of a folder, the class of its error, and the text, with ~ for the folder.
CASES = {
    "no numpy file": (
        lambda folder: read_array(folder / "a.npy"),
        UnfitInputError,
        "~/a.npy is not a numpy file: [Errno 2] No such file or directory: '~/a.npy'\n"
        "  at: files\n  hint: write it again with numpy",
    ),
    "one array": (
        arrays_of_one_array,
        UnfitInputError,
        "~/a.npy has one array without a name\n  at: files\n  hint: give a file that numpy.savez wrote",
    ),
    "several arrays": (
        array_of_arrays,
        UnfitInputError,
        "~/a.npz has arrays by name\n  at: files\n  hint: give a file that numpy.save wrote",
    ),
    "scale": (
        lambda _: Border.parse(SCALE | {"scale": 0.0}, None),
        ConnectionFailedError,
        scales("a scale of 0.0 and an offset of 0.0"),
    ),
    "shape of scales": (
        lambda _: Border.parse(
            SCALE | {"scale": [1.0, 2.0, 3.0]}, Buffer("y", "", X.dtype, (1,), 0, True, True)
        ),
        ConnectionFailedError,
        scales("scales of shape (3,) for (1,)"),
    ),
    "number of scales": (
        lambda _: opened(files=FILES | {"borders": {"inputs": [], "outputs": []}}),
        ConnectionFailedError,
        scales("zip() argument 2 is shorter than argument 1"),
    ),
    "name of a device": (
        lambda _: tg2hdl_host.connect(5),
        ConnectionFailedError,
        "a device and a design are named by text or a path: expected str, bytes or os.PathLike object, not int\n"
        "  at: link\n  hint: give e.g. '/dev/ttyUSB0' or 'simulate:DIR'",
    ),
    "no device": (
        lambda folder: tg2hdl_host.connect(f"{folder}/tty"),
        ConnectionFailedError,
        "cannot open ~/tty: [Errno 2] could not open port ~/tty: [Errno 2] No such file or directory: '~/tty'\n"
        "  at: link\n  hint: check the name, the cable and the permissions",
    ),
    "no folder": (
        lambda folder: read_files(folder),
        ConnectionFailedError,
        f"there is no ~/device.json\n  at: identity\n  {FOLDER}",
    ),
    "no description": (
        lambda folder: files_of(folder, "{"),
        ConnectionFailedError,
        f"~/device.json is not a description of a design\n  at: identity\n  {AGAIN}",
    ),
    "no number": (
        lambda _: dtype_named("finfo"),
        ConnectionFailedError,
        "'finfo' is not a type of numbers\n  at: identity\n  hint: build the design again",
    ),
    "floats for integers": (
        lambda _: BUFFER.encode(np.zeros((1, 8), np.float32)),
        UnfitInputError,
        "'x' has shape (1, 8) and type float32, the design takes (1, 8) and int8\n  at: write x\n"
        "  hint: give the integers that the model was compiled for: .astype() does not scale values",
    ),
    "another shape": (
        lambda _: BUFFER.encode(np.zeros(7, np.int8)),
        UnfitInputError,
        "'x' has shape (7,) and type int8, the design takes (1, 8) and int8\n  at: write x\n"
        "  hint: reshape it, or convert it with .astype()",
    ),
    "two buffers of one name": (
        lambda _: described(buffers=[*DESCRIPTION["buffers"], DESCRIPTION["buffers"][0]]),
        ConnectionFailedError,
        description("two buffers of one name"),
    ),
    "outputs": (
        lambda _: described(outputs=["x"]),
        ConnectionFailedError,
        description("the outputs ('x',) cannot be read"),
    ),
    "inputs": (
        lambda _: opened(files=FILES | {"inputs": ["y"]}),
        ConnectionFailedError,
        description("the inputs ('y',) leave out some of ('x',)"),
    ),
    "weights are missing": (
        lambda _: opened(FakeDevice(weights=True))(X),
        UnfitInputError,
        "weights are not loaded: w\n  at: write weights\n"
        "  hint: call load_weights or load_image first, or connect with the folder that `tg2hdl build` wrote",
    ),
    "inputs are missing": (
        lambda _: two_inputs()(X),
        UnfitInputError,
        "1 input for a design of 2\n  at: write inputs\n"
        "  hint: pass gone, x; run takes one tuple for each result, such as zip(gone, x)",
    ),
    "too many inputs": (
        lambda _: opened()(X, X),
        UnfitInputError,
        "2 inputs for a design of 1\n  at: write inputs\n  hint: pass x",
    ),
    "outputs without scales": (
        lambda _: opened().dequantize(X),
        UnfitInputError,
        "1 outputs, and scales of 0\n  at: dequantize\n"
        "  hint: connect with the folder that `tg2hdl build` wrote for a quantized model",
    ),
    "outputs of another shape": (
        lambda _: opened(
            files=FILES | {"borders": {"inputs": [SCALE], "outputs": [SCALE | {"shape": [2]}]}}
        ).dequantize(X),
        UnfitInputError,
        "the outputs do not fit the scales: cannot reshape array of size 8 into shape (2,)\n  at: dequantize\n"
        "  hint: give outputs of the device, and the folder of its model",
    ),
    "weights without names": (
        lambda _: opened().load_weights([X]),
        UnfitInputError,
        "weights are a list\n  at: weights\n  hint: give a mapping of names to arrays: {name: array}",
    ),
    "unknown weight": (
        lambda _: opened(FakeDevice(weights=True)).load_weights({"v": X}),
        UnfitInputError,
        "no weight 'v' can be loaded\n  at: write v\n  hint: weights are w",
    ),
    "fixed weight": (
        lambda _: opened().load_weights({"v": X}),
        UnfitInputError,
        "no weight 'v' can be loaded\n  at: write v\n"
        "  hint: weights are part of the design: build it with --weights loadable",
    ),
    "image without memory": (
        lambda _: opened().load_image(image_of(0x1122334455667788, 2000)),
        UnfitInputError,
        "an image of 2,000 bytes, and the memory outside the chip cannot be written here\n  at: memory image\n"
        "  hint: build the design with --memory-port sdram, or load it through the bus of that memory",
    ),
    "image of another size": (
        lambda _: told(
            buffers=[*DESCRIPTION["buffers"], ["m", "image", "uint8", [4096], 0x100, "w"]]
        ).load_image(image_of(0x1122334455667788, 2000)),
        UnfitInputError,
        "an image of 2,000 bytes, and the memory outside the chip takes 4,096 bytes\n  at: memory image\n"
        "  hint: build the design with --memory-port sdram, or load it through the bus of that memory",
    ),
    "image of another design": (
        lambda _: opened().load_image(image_of(5, 4)),
        WrongDesignError,
        "the memory image belongs to the design 0000000000000005, not to 1122334455667788\n  at: memory image\n"
        "  hint: load the image that was written with this design",
    ),
    "no image": (
        lambda _: MemoryImage.parse(b"text"),
        UnfitInputError,
        "the file is not a memory image\n  at: memory image\n  hint: give the NAME.weights.img",
    ),
    "no file of an image": (
        lambda folder: MemoryImage.load(folder / "image"),
        UnfitInputError,
        "cannot read ~/image: No such file or directory\n  at: memory image\n  hint: give the NAME.weights.img",
    ),
    "variable": (
        lambda _: told().set_variable("n", 9),
        UnfitInputError,
        "variable 'n' cannot be 9\n  at: write n\n  hint: give 1 to 8",
    ),
    "no such variable": (
        lambda _: told()(np.zeros((1, 8), np.int8), m=1),
        UnfitInputError,
        "the design has no variable 'm'\n  at: write m\n  hint: its variables are n",
    ),
    "a variable without a value": (
        lambda _: told()(np.zeros((1, 8), np.int8)),
        UnfitInputError,
        "variable 'n' has no value\n  at: write n\n"
        "  hint: pass n=..., or connect with the folder that `tg2hdl build` wrote",
    ),
    "an unknown name in a dict": (
        lambda _: told()({"x": np.zeros((1, 8), np.int8), "z": 1}, n=1),
        UnfitInputError,
        "'z' is not an input of the design\n  at: write inputs\n  hint: inputs are x",
    ),
    "infinite elements": (
        lambda _: quantized()(np.full((1, 8), np.inf)),
        UnfitInputError,
        "'x' has NaN or infinite elements\n  at: write x\n  hint: give finite values",
    ),
    "another kind of device": (
        lambda _: other_magic(),
        ConnectionFailedError,
        "fake is not a device of this kind: magic 0x0, version 1\n  at: identity\n"
        "  hint: check the bitstream, and that driver and design are of the same version",
    ),
    "another design": (
        lambda _: opened(files={"id": "00ff", "design": "other"}),
        WrongDesignError,
        "fake holds the design 1122334455667788, not 00ff (other)\n  at: identity\n"
        "  hint: load the bitstream of this folder: tg2hdl program DIR",
    ),
    "no vectors": (
        lambda folder: selftest(opened(), folder),
        ConnectionFailedError,
        f"there is no ~/vectors.npz\n  at: vectors\n  {VECTORS}",
    ),
    "empty vectors": (
        lambda folder: check_vectors(folder, in0_0=X),
        ConnectionFailedError,
        "~/vectors.npz has no vectors\n  at: vectors\n  hint: build with --vectors 8",
    ),
    "shape of a vector": (
        lambda folder: check_vectors(folder, in0_0=X, out0_0=np.zeros(4, np.int32)),
        WrongResultError,
        f"'y' has the shape (3,), the stored vector (4,)\n  at: vector 0\n  {VECTORS}",
    ),
    "element of a vector": (
        lambda folder: check_vectors(folder, in0_0=X, out0_0=np.array([28, 57, 85], np.int32)),
        WrongResultError,
        "2 of 3 elements of 'y' differ, the first at 1: 56, stored 57\n  at: vector 0\n"
        "  hint: if the link has no errors, the bitstream misses its timing or the board its power",
    ),
    "vectors of another design": (
        lambda folder: check_vectors(folder, in0_0=X, in0_1=X, out0_0=X),
        UnfitInputError,
        f"the vectors do not fit the design: zip() argument 2 is shorter than argument 1\n  at: vectors in0_\n"
        f"  {VECTORS}",
    ),
    "token": (
        unreadable_token,
        ConnectionFailedError,
        "cannot read the token of the simulation, ~/serve-7.token: not text\n  at: link\n"
        "  hint: connect as the user who runs `tg2hdl serve`",
    ),
    "another server": (
        silent_server,
        ConnectionFailedError,
        "socket://host:7 does not answer as `tg2hdl serve` does\n  at: link\n  hint: start it again",
    ),
    "name of an SPI device": (
        lambda _: open_spi("spi:zero", 1000),
        ConnectionFailedError,
        f"'spi:zero' names no SPI device\n  at: link\n  {SPI}",
    ),
    "SPI is gone": (
        lambda _: SpiTransport("spi:0.0", gone, lambda: None).write(b"x"),
        ConnectionFailedError,
        "spi:0.0 is gone: [Errno 5] Input/output error\n  at: link\n  hint: connect again",
    ),
    "integer": (lambda _: documents.integer(300, 0, 9), ValueError, "300 is not a number from 0 to 9"),
    "text": (lambda _: documents.text(""), ValueError, "'' is not a name"),
    "flag": (lambda _: documents.flag(1), ValueError, "1 is neither true nor false"),
    "list": (lambda _: documents.listed(3), ValueError, "3 is not a list"),
    "unreadable state": (
        lambda _: described(states=[["x", None, None]]),
        ConnectionFailedError,
        description("the state 'x' cannot be reached"),
    ),
    "shapes of a state": (
        lambda _: opened(files=FILES | {"shapes": {"y": [4]}}),
        ConnectionFailedError,
        description("the shapes {'y': (4,)} do not fit the state"),
    ),
    "no feedback": (
        lambda _: opened().generate(X),
        UnfitInputError,
        "no such output has the shape (1, 8) and type int8 of 'x'; outputs are y (3,) int32\n  at: generate\n"
        "  hint: give feedback=, counter=, start= or limit=",
    ),
    "variables of a design without any": (
        lambda _: opened()(X, n=1),
        UnfitInputError,
        "the design has no variable 'n'\n  at: write n\n  hint: it has none: leave it out",
    ),
    "first contents of state": (
        lambda _: with_state().reset(),
        UnfitInputError,
        "the first contents of s are not known\n  at: reset\n"
        "  hint: connect with the folder that `tg2hdl build` wrote",
    ),
    "range of state": (
        lambda _: with_state().state.__setitem__("s", np.array([0, 9], np.int8)),
        UnfitInputError,
        "'s' is given values from 0 to 9\n  at: write s\n  hint: give values from -4 to 3",
    ),
    "name of state": (
        lambda _: opened().state["s"],
        UnfitInputError,
        "the design has no state 's' within reach\n  at: state\n"
        "  hint: it has no state: each run depends on its inputs only",
    ),
    "inputs that are fed back": (
        lambda _: feedback_of([], [], {}, None, None, None),
        ValueError,
        "results are fed back to one input, and the inputs are none: keep the others as state",
    ),
    "several counters": (
        lambda _: feedback_of([TENSOR], [TENSOR], {"n": (0, 3), "m": (0, 3)}, None, None, None),
        ValueError,
        "several variables may count: name one of n, m by counter=...",
    ),
    "runs without an end": (
        lambda _: feedback_of([TENSOR], [TENSOR], {}, None, None, None).results(None, X, None, None),
        ValueError,
        "limit is missing: there is no counter whose range ends the runs",
    ),
    "list of two": (lambda _: documents.listed([3], 2), ValueError, "[3] is not a list of 2 elements"),
    "elements": (
        lambda _: documents.shape([1 << 20, 1 << 20]),
        ValueError,
        "[1048576, 1048576] are too many elements",
    ),
    "structure": (
        lambda _: documents.check_structure([], [3]),
        ValueError,
        "[] is not a structure of results",
    ),
    "empty structure": (
        lambda _: documents.check_structure({}, [3]),
        ValueError,
        "{} is not a structure of results",
    ),
    "shape of a result": (
        lambda _: documents.check_structure({"output": 0, "shape": [4]}, [3]),
        ValueError,
        "the shape [4] for 3 elements",
    ),
    "key": (
        lambda _: documents.check_structure({"dict": [[["x"], {}]]}, [3]),
        ValueError,
        "['x'] is not a key",
    ),
    "refused": (
        lambda _: failed(Fault("", "run", 5)),
        RefusedError,
        "fake refuses: another run was started in between\n  at: run\n"
        "  hint: another program may use the device; else reset it and connect again",
    ),
    "no answer": (
        lambda _: failed(Fault("no answer", "run")),
        LinkError,
        "fake: no answer, 6 times\n  at: run\n"
        "  hint: check cable, power and baud rate, and that the board holds a design with this port; "
        "`tg2hdl loopback` tells which",
    ),
}


@pytest.mark.parametrize(("make", "kind", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(tmp_path, make, kind, text):
    with pytest.raises(kind) as caught:
        make(tmp_path)
    assert type(caught.value) is kind
    assert str(caught.value) == text.replace("~", str(tmp_path))


def test_a_type_that_numpy_lacks_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ConnectionFailedError) as caught:
        dtype_named("bfloat16")
    assert str(caught.value) == "numpy has no type 'bfloat16'\n  at: identity\n  hint: pip install ml_dtypes"


def test_spi_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "spidev" else find_spec(name)
    )
    with pytest.raises(ConnectionFailedError) as caught:
        tg2hdl_host.connect("spi:0.0")
    assert str(caught.value) == (
        "the Python package spidev is not installed\n  at: link\n"
        '  hint: pip install "tg2hdl-host[spi]" (Linux only)'
    )


def test_spi_that_cannot_be_opened(monkeypatch):
    def absent(bus, chip):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "spidev", SimpleNamespace(SpiDev=lambda: SimpleNamespace(open=absent)))
    with pytest.raises(ConnectionFailedError) as caught:
        open_spi("spi:3.1", 1000)
    assert str(caught.value) == (
        "cannot open spi:3.1: [Errno 2] No such file or directory\n  at: link\n"
        "  hint: check that SPI is enabled (on a Raspberry Pi: raspi-config), its numbers, and the permissions"
    )


def test_a_simulation_that_does_not_start(tmp_path, monkeypatch):
    (tmp_path / "device.json").write_text(json.dumps(FILES | {"buffers": []}))
    monkeypatch.setattr("sys.executable", "false")
    with pytest.raises(ConnectionFailedError) as caught:
        tg2hdl_host.connect(f"simulate:{tmp_path}")
    assert str(caught.value) == (
        f"the simulation of {tmp_path} does not start\n  at: link\n"
        '  hint: it needs the compiler here: pip install "tg2hdl[sim]"'
    )


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (None, "`tg2hdl serve DIR` needs its folder: connect(url, DIR)"),
        ("secret", "the simulation has ended"),
    ],
)
def test_a_simulation_that_ends(token, reason):
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listening.accept()
        with listening, connection:
            if token:
                connection.recv(100)
                connection.sendall(b"{}\n")
            connection.recv(4)

    thread = Thread(target=serve)
    thread.start()
    url = f"spi+socket://127.0.0.1:{listening.getsockname()[1]}"
    transport = open_spi(url, 1000, token)
    with pytest.raises(ConnectionFailedError) as caught:
        transport.write(b"ping")
    thread.join()
    transport.close()
    assert str(caught.value) == f"{url} is gone: {reason}\n  at: link\n  hint: connect again"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([0, "i", "y", 8, 1], "the loop counts with 'i'"),
        ([0, None, "x", 8, 1], "the results 'x' cannot be read"),
    ],
)
def test_registers_of_a_loop_that_name_nothing(entry, message):
    buffers = {"x": SimpleNamespace(reads=()), "y": SimpleNamespace(reads=(1,))}
    with pytest.raises(ValueError, match=f"^{message}$"):
        _loop(entry, buffers, {})
