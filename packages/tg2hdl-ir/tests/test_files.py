"""Files that are whole or not there."""

import errno
import os
import resource
import stat
import subprocess
import sys

import numpy as np
import pytest

from tg2hdl_ir import InputError, files
from tg2hdl_ir.files import npz_bytes, staged_file, write_file, write_files
from tg2hdl_ir.limits import memory_shortage, system_error


@pytest.fixture
def full(monkeypatch):
    """A disk with room for a number of bytes."""
    left = [0]

    class File:
        def __init__(self, path, mode):
            self.file = open(path, mode)  # noqa: SIM115

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            self.file.write(data[: left[0]])
            if len(data) > left[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left[0] -= len(data)

    monkeypatch.setattr(files, "open", File, raising=False)
    return left


def test_a_file_and_its_folder_are_made(tmp_path):
    before = os.umask(0o027)
    try:
        path = write_file(tmp_path / "a" / "b.txt", "text")
    finally:
        os.umask(before)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("text", 0o640)
    path.chmod(0o600)
    write_file(path, b"bytes")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"bytes", 0o600)
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]


def test_a_full_disk_leaves_what_was_there(tmp_path, full):
    (tmp_path / "a").write_text("old")
    full[0] = 6
    with pytest.raises(InputError) as caught:
        write_files(tmp_path, {"a": "new", "b": "longer"})
    assert str(caught.value) == (
        f"bad input: cannot write {tmp_path / 'b'}: No space left on device\n"
        "  hint: free some space, or give another path"
    )
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "old"}
    full[0] = 9
    write_files(tmp_path, {"a": "new", "b": "longer"})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "new", "b": "longer"}


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path):
    (tmp_path / "link").symlink_to("target")
    write_file(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"
    write_file("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(InputError, match="cannot write /dev/full: No space left on device"):
        write_file("/dev/full", "text")


def test_what_cannot_be_a_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="it is a folder"):
        write_file(tmp_path, "text")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"Not a directory|File exists"):
        write_file(tmp_path / "file" / "name", "text")


def test_nothing_stays_of_a_file_whose_writer_fails(tmp_path):
    def write():
        with staged_file(tmp_path / "a") as place:
            place.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write()
    assert list(tmp_path.iterdir()) == []


def test_arrays_come_back(tmp_path):
    path = write_file(tmp_path / "a.npz", npz_bytes({"x": np.arange(3)}, compressed=True))
    assert np.load(path)["x"].tolist() == [0, 1, 2]


def test_errors_of_the_system_are_named():
    found = system_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x"))
    assert str(found) == (
        "error: cannot write /x: No space left on device\n"
        "  hint: free some space; TMPDIR names the folder of temporary files, TG2HDL_CACHE_DIR that of the cache"
    )
    assert system_error(OSError(errno.ENOENT, "no")) is None
    assert system_error(ValueError()) is None
    assert str(system_error(MemoryError())) == (
        "error: not enough memory\n  hint: end other programs, or make the model smaller"
    )


def test_a_limit_of_memory_is_named():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9,) * 2)\n"
        "from tg2hdl_ir.limits import system_error\n"
        "try: bytearray(10**10)\n"
        "except MemoryError as error: print(system_error(error))"
    )
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == (
        "error: not enough memory\n"
        "  note: ulimit -v limits this process to 2.0 GB of address space\n"
        "  hint: raise the limit\n"
    )


@pytest.mark.parametrize(
    "printed", ["Cannot allocate memory (os error 12)", "memory allocation of 36 bytes failed"]
)
def test_programs_that_get_no_memory_are_told_by_what_they_print(printed, monkeypatch):
    assert memory_shortage(printed) is None
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (3 * 10**8,) * 2)
    assert memory_shortage(printed) == "ulimit -v limits this process to 0.3 GB of address space"
    assert memory_shortage("syntax error") is None
