"""Small files of arrays that ask for much memory."""

import io
import zipfile

import numpy as np
import pytest

from tg2hdl_host import UnfitInputError, arrays
from tg2hdl_host.arrays import read_array, read_arrays


def _header(shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


SMALL_FILES = {
    "unpacks to much": ({"x.npy": _header((1 << 20,)) + bytes(4 << 20)}, {}, "unpacks to 4,194,432"),
    "many that unpack to little": (
        {f"{n}.npy": _header((1 << 14,)) + bytes(1 << 16) for n in range(16)},
        {},
        "unpacks to 1,050,624",
    ),
    "header of terabytes": ({"x.npy": _header((1 << 40,))}, {}, "an array of 4,398,046,511,104 bytes in 128"),
    "elements without bytes": (
        {"x.npy": _header((1 << 40,)).replace(b"<f4", b"|V0")},
        {},
        "an array of 1,099,511,627,776 bytes in 128",
    ),
    "method without a limit": (
        {"x.npy": _header((1 << 14,)) + bytes(1 << 16)},
        {"compression": zipfile.ZIP_BZIP2},
        "packed by a method",
    ),
}


@pytest.mark.parametrize("name", SMALL_FILES)
def test_small_files_that_ask_for_much_memory_are_refused_before_it_is_taken(name, tmp_path, monkeypatch):
    members, options, message = SMALL_FILES[name]
    monkeypatch.setattr(arrays, "UNPACKED_BYTES", 1 << 18)
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", **{"compression": zipfile.ZIP_DEFLATED, **options}) as archive:
        for member, contents in members.items():
            archive.writestr(member, contents)
    with monkeypatch.context() as patch:
        patch.setattr(np, "load", lambda *_, **__: pytest.fail("it was read"))
        with pytest.raises(UnfitInputError, match=message):
            read_arrays(path)


def test_directory_that_says_too_little_gives_no_more(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", _header((1 << 20,)) + bytes(4 << 20))
    size = (128 + (4 << 20)).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (128 + 4096).to_bytes(4, "little")))
    with pytest.raises(UnfitInputError, match="4,194,304 bytes in 4,224"):
        read_arrays(path)
    path.write_bytes(_header((1 << 40,)))
    with pytest.raises(UnfitInputError, match="bytes in 128"):
        read_array(path)


def test_large_arrays_that_are_not_packed_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "UNPACKED_BYTES", 1 << 10)
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros(1 << 16))
    assert read_arrays(path)["x"].shape == (1 << 16,)
    np.savez_compressed(path, x=np.arange(1 << 8))
    assert read_arrays(path)["x"].tolist() == list(range(1 << 8))
