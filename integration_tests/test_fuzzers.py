"""A bounded part of the fuzzers of benchmarks/fuzz, with fixed seeds."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

for package in ("onnx", "onnxruntime", "hypothesis"):
    pytest.importorskip(package)
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "fuzz"))

GROUPS = [range(first, first + 5) for first in range(1, 31, 5)]


@pytest.mark.parametrize("seeds", GROUPS, ids=str)
def test_files_give_the_results_of_onnx_runtime(seeds):
    from files import outcomes

    found = [outcome for seed in seeds for outcome in outcomes(seed)]
    faults = [f"{seed} {form}: {verdict}" for seed, form, verdict, _ in found if verdict.is_fault]
    assert not faults, "\n".join(faults)
    kinds = Counter(verdict.kind for _, _, verdict, _ in found)
    assert kinds["right"] > 10, kinds


def test_programs_equal_the_interpreter_and_the_hardware():
    from programs import Fuzzer

    fuzzer = Fuzzer(simulate=6)
    fuzzer.batch(1, programs=30)
    assert not fuzzer.faults
    assert fuzzer.counts["golden"] >= 15
    assert fuzzer.counts["simulated"] >= 2


def test_a_wrong_element_is_found(monkeypatch):
    import judge
    from forms import file_of

    outputs = judge._outputs

    def wrong(*arguments):
        found = outputs(*arguments)
        found[0].reshape(-1)[-1] += 1
        return found

    model = file_of(2, "float")
    assert judge.judge(model).kind == "right"
    monkeypatch.setattr(judge, "_outputs", wrong)
    assert judge.judge(model).kind == "wrong"


def test_a_faulty_file_is_made_smaller():
    from forms import file_of
    from shrink import shrunk

    def is_faulty(model):
        return any(node.op_type == "Trilu" for node in model.graph.node)

    model = file_of(12, "float")
    assert len(model.graph.node) == 11
    assert [node.op_type for node in shrunk(model, is_faulty).graph.node] == ["Trilu"]


def test_edited_lines_of_rewrites_are_there():
    from edited_lines import EDITS

    for edit in EDITS:
        compile(edit.source(), edit.module, "exec")
