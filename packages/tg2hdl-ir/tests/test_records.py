"""Dataclasses as JSON."""

from __future__ import annotations

import json
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings

from tg2hdl_ir import BufferMeta, DType, InputError, IRBufStore, IRConst, IROp, KernelIR, LoopIR, verify
from tg2hdl_ir.analysis.address_range import Extreme
from tg2hdl_ir.records import read_record, signed, write_record
from tg2hdl_ir.testing.strategies import kernels


@settings(max_examples=50, deadline=None)
@given(kernels())
def test_kernels_come_back(drawn):
    kernel = drawn[0]
    again = read_record(write_record(kernel))
    assert verify(again).format() == kernel.format()


def chain(length: int) -> KernelIR:
    value: object = IRConst(1, DType.INT32)
    for _ in range(length):
        value = IROp("add", DType.INT32, (value, value))
    store = IRBufStore(0, IRConst(0, DType.INT32), value, DType.INT32)
    return KernelIR((BufferMeta(0, 1, DType.INT32, True),), LoopIR.from_items((store,)))


def test_a_shared_value_is_written_once_and_shared_again():
    again = read_record(
        write_record(chain(3000))
    )  # a tree of 2**3000 without sharing, and deeper than the stack
    value = again.scalar_stores[0].value
    assert value.srcs[0] is value.srcs[1]


def test_containers_and_numbers_come_back():
    value = {1: (2, [3.5, None, True]), ("a", 2): frozenset({3}), "nan": math.inf, "big": 1 << 80}
    assert read_record(write_record(value)) == value


def test_equal_sets_have_one_text():
    first, second = frozenset([0, 8]), frozenset([8, 0])
    assert list(first) != list(second)
    assert write_record(first) == write_record(second)


@pytest.mark.parametrize(
    "kind", ["os:system", "subprocess:Popen", "tg2hdl_ir.parser:re.compile", "tg2hdl_ir.verifier:verify", "x"]
)
def test_only_dataclasses_of_the_packages_are_made(kind):
    text = json.dumps(signed({"format": 1, "objects": [[kind, {}]], "value": {"object": 0}}))
    with pytest.raises(
        InputError, match=r"cannot be read: (ValueError|AttributeError|ModuleNotFoundError|ImportError)"
    ):
        read_record(text)


@pytest.mark.parametrize("text", ["", "{}", "[]", "3", '{"format": 2, "objects": [], "value": 1}'])
def test_damaged_records_are_refused(text):
    with pytest.raises(InputError, match="record"):
        read_record(text)


def test_truncated_records_are_refused():
    text = write_record(chain(5))
    for length in range(len(text)):
        with pytest.raises(InputError, match="record"):
            read_record(text[:length])


def test_objects_of_other_classes_are_refused():
    with pytest.raises(TypeError, match=r"of type object cannot be written: records have"):
        write_record({"a": object()})


def test_arrays_and_named_tuples_come_back_as_they_were():
    array = np.arange(6, dtype=np.int8).astype(ml_dtypes.bfloat16).reshape(2, 3)
    named = Extreme(-3, {})
    found = read_record(write_record((array, named)))
    np.testing.assert_array_equal(found[0], array)
    assert found[0].dtype == array.dtype
    assert type(found[1]) is Extreme
    assert found[1] == named
    with pytest.raises(InputError, match="value of a Extreme is 'a'"):
        read_record(write_record(Extreme("a", {})))
