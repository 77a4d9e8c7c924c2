"""Files beside a bitstream that were changed."""

import io
import json
import pickle

import numpy as np
import pytest

from fake_device import DisturbedLine, FakeDevice
from tg2hdl_host import ConnectionFailedError, Device, HostError, UnfitInputError
from tg2hdl_host.arrays import read_array, read_arrays
from tg2hdl_host.description import read_files

FILES = {
    "id": "1122334455667788",
    "design": "fake",
    "buffers": [],
    "inputs": ["x"],
    "structure": {"dict": [["a", {"output": 0, "shape": [3, 1]}]]},
    "borders": {
        "inputs": [{"scale": 0.5, "offset": 0.0, "zero": 1, "low": -128, "high": 127}],
        "outputs": [{"scale": [0.5, 1.0, 2.0], "offset": 0.0, "zero": 0, "low": -9, "high": 9}],
    },
}


def opened(folder, **changes):
    (folder / "device.json").write_text(json.dumps(FILES | changes))
    return Device(DisturbedLine(FakeDevice()), files=read_files(folder), timeout=5)


def test_a_right_file_is_taken(tmp_path):
    x = np.arange(8, dtype=np.int8)[None]
    assert np.array_equal(opened(tmp_path).flat(x)[0], 28 * np.array([1, 2, 3]))


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": []},
        {"inputs": ["y"]},
        {"inputs": None},
        {"inputs": ["x", "x"]},
        {"structure": {"output": 1}},
        {"structure": {"output": 0, "shape": [4]}},
        {"structure": []},
        {"structure": {"tuple": 3}},
        {"structure": {"dict": [[["list"], {"output": 0}]]}},
        {"borders": {"inputs": []}},
        {"borders": {"inputs": [{}], "outputs": [{}]}},
        {"borders": FILES["borders"] | {"inputs": [FILES["borders"]["inputs"][0] | {"scale": 0}]}},
        {"borders": FILES["borders"] | {"inputs": [FILES["borders"]["inputs"][0] | {"low": 300}]}},
        {"borders": FILES["borders"] | {"inputs": [FILES["borders"]["inputs"][0] | {"scale": [1.0] * 7}]}},
        {"baud": "fast"},
        {"id": 3},
        {"buffers": {}},
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, change):
    with pytest.raises(HostError):
        opened(tmp_path, **change)


@pytest.mark.parametrize("name", ["O", "object", "float32,int8", "NaN", "finfo", "V8", "int128", "é"])
def test_a_type_that_is_no_number_is_refused(name):
    board = FakeDevice()
    start, size = board.word(0x10), board.word(0x14)
    text = json.loads(bytes(board.memory[start : start + size]))
    text["buffers"][0][2] = name
    raw = json.dumps(text).encode()
    board.memory[start:] = raw + bytes(-len(raw) % 4)
    board.put(0x14, len(raw))
    with pytest.raises(ConnectionFailedError):
        Device(DisturbedLine(board), timeout=5)


class Shell:
    def __reduce__(self):
        return print, ("executed",)


def test_objects_in_files_are_not_unpickled(tmp_path, capsys):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array([Shell()], dtype=object))
    with pytest.raises(UnfitInputError) as caught:
        read_arrays(path)
    assert caught.value.message == (
        f"{path} is not a numpy file: Object arrays cannot be loaded when allow_pickle=False"
    )
    path.write_bytes(pickle.dumps(Shell()))
    for read in (read_array, read_arrays):
        with pytest.raises(UnfitInputError):
            read(path)
    file = io.BytesIO()
    np.save(file, np.arange(3))
    path.write_bytes(file.getvalue())
    assert read_array(path).tolist() == [0, 1, 2]
    with pytest.raises(UnfitInputError, match="one array without a name"):
        read_arrays(path)
    assert "executed" not in capsys.readouterr().out
