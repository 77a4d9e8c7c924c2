import threading

import pytest

from tg2hdl_ir.content_cache import content_key
from tg2hdl_synth import SynthesisError
from tg2hdl_synth.cache import run_cached


def test_a_run_is_kept_by_content():
    def run(folder):
        (folder / "result").write_text("3")

    folder, cached = run_cached(content_key("once"), run)
    assert ((folder / "result").read_text(), cached) == ("3", False)
    assert run_cached(content_key("once"), pytest.fail) == (folder, True)


def test_two_at_the_same_work_do_not_disturb_each_other():
    inside = threading.Barrier(2, timeout=30)
    found = []

    def run(folder):
        (folder / "first").write_text("1")
        inside.wait()
        (folder / "second").write_text((folder / "first").read_text())
        inside.wait()

    def call():
        folder, cached = run_cached(content_key("twice"), run)
        found.append(((folder / "second").read_text(), cached))

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result for result, _ in found] == ["1", "1"]


def test_the_second_of_two_leaves_what_the_first_has_made():
    def run(folder):
        (folder / "result").write_text("first")
        if not nested:
            nested.append(True)
            first, _ = run_cached(content_key("late"), run)
            inodes.append((first / "result").stat().st_ino)

    nested, inodes = [], []
    folder, cached = run_cached(content_key("late"), run)
    assert (folder / "result").stat().st_ino == inodes[0]
    assert not cached
    assert [p.name for p in folder.parent.iterdir() if p.name.startswith(".")] == []


def test_an_incomplete_folder_is_replaced():
    folder, _ = run_cached(content_key("broken"), lambda folder: (folder / "a").touch())
    (folder / "manifest.json").unlink()
    again, cached = run_cached(content_key("broken"), lambda folder: (folder / "b").touch())
    assert ([p.name for p in sorted(again.iterdir())], cached) == (["b", "manifest.json"], False)


def test_logs_of_a_failed_run_are_where_the_hint_says():
    def run(folder):
        (folder / "log").write_text("no")
        raise SynthesisError("it fails", hint=f"see {folder / 'log'}")

    for _ in range(2):
        with pytest.raises(SynthesisError) as caught:
            run_cached(content_key("fails"), run)
        path = caught.value.hint.removeprefix("see ")
        assert "-failed" in path
        with open(path) as log:
            assert log.read() == "no"
