"""Accesses outside their buffer, which only data decides: golden model and hardware have one result."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_lower import Layout, plan_kernel

GATHER = (
    "kernel gather\n  b0: int32[6] output\n  b1: int32[5]\n  b2: {index}[6]\nRANGE i0 < 6 loop\n"
    "%0 = LOAD {index} b2[i0]\n%1 = LOAD int32 b1[%0]\nSTORE int32 b0[i0] = %1\nEND i0\n"
)
SCATTER = (
    "kernel scatter\n  b0: int32[5] output\n  b1: int8[6]\nRANGE i0 < 6 loop\n"
    "%0 = LOAD int8 b1[i0]\nSTORE int32 b0[%0] = i0\nEND i0\n"
)
TABLE = np.arange(11, 16, dtype=np.int32)


@pytest.mark.parametrize(
    ("index", "positions", "expected"),
    [
        ("int32", [0, 4, 5, -1, 8, -(2**31)], [11, 15, 0, 0, 0, 0]),
        ("int8", [4, 127, -128, 3, 7, -3], [15, 0, 0, 14, 0, 0]),
        ("uint64", [4, 5, 2**63, 2**64 - 1, 2**32, 1], [15, 0, 0, 0, 0, 12]),
    ],
)
@pytest.mark.parametrize("lanes", [1, 4])
def test_a_load_outside_its_buffer_reads_zero(index, positions, expected, lanes, same_as_golden):
    kernel = parse_kernel(GATHER.format(index=index))
    buffers = {1: TABLE, 2: np.array(positions, index)}
    assert evaluate(kernel, buffers)[0].tolist() == expected
    plan = plan_kernel(canonicalize(kernel), layouts={1: Layout.linear(5, lanes)})
    same_as_golden(kernel, plan, buffers)


def test_a_gated_load_outside_its_buffer_takes_the_alternative(same_as_golden):
    kernel = parse_kernel(
        "kernel gather\n  b0: int32[6] output\n  b1: int32[5]\n  b2: int8[6]\nRANGE i0 < 6 loop\n"
        "%0 = LOAD int8 b2[i0]\n%1 = lt bool %0, 6:int8\n"
        "%2 = LOAD int32 b1[%0] if %1 else -7:int32\nSTORE int32 b0[i0] = %2\nEND i0\n"
    )
    buffers = {1: TABLE, 2: np.array([0, 4, 5, 6, -1, 3], np.int8)}
    assert evaluate(kernel, buffers)[0].tolist() == [11, 15, -7, -7, -7, 14]
    same_as_golden(kernel, plan_kernel(canonicalize(kernel)), buffers)


def test_a_store_outside_its_buffer_is_dropped(same_as_golden):
    kernel = parse_kernel(SCATTER)
    buffers = {0: np.full(5, 9, np.int32), 1: np.array([4, 5, -1, 7, 0, 100], np.int8)}
    assert evaluate(kernel, buffers)[0].tolist() == [4, 9, 9, 9, 0]
    same_as_golden(kernel, plan_kernel(canonicalize(kernel)), buffers)


ARRAY = (
    "kernel array\n  b0: int32[6] output\n  b1: {index}[6]\n  b2: {index}[6]\n  r0: int32[{size}]\n"
    "RANGE i0 < 6 loop\n%0 = LOAD {index} b1[i0]\n%1 = LOAD {index} b2[i0]\n%2 = add int32 i0, 11:int32\n"
    "SET r0[%0] = %2\n%3 = GET int32 r0[%1]\nSTORE int32 b0[i0] = %3\nEND i0\n"
)


@pytest.mark.parametrize(
    ("index", "size", "writes", "reads", "expected"),
    [
        ("int32", 5, [0, 5, 4, -1, 8, 4], [0, 0, 4, 5, -1, 4], [11, 11, 13, 0, 0, 16]),
        ("int8", 1, [0, 1, -1, 127, 0, -128], [0, 0, 0, -128, 1, 0], [11, 11, 11, 0, 0, 15]),
        ("uint64", 3, [2**64 - 1, 2, 2**63, 1, 3, 0], [2, 2, 2, 2**32, 3, 0], [0, 12, 12, 0, 0, 16]),
    ],
)
def test_an_access_outside_an_array_of_registers(index, size, writes, reads, expected, same_as_golden):
    kernel = parse_kernel(ARRAY.format(index=index, size=size))
    buffers = {1: np.array(writes, index), 2: np.array(reads, index)}
    assert evaluate(kernel, buffers)[0].tolist() == expected
    same_as_golden(kernel, plan_kernel(canonicalize(kernel)), buffers)


def test_one_index_for_store_and_load_outside_an_array_of_registers(same_as_golden):
    # The load is forwarded from the store of the same index, which did not write.
    text = (
        ARRAY.format(index="int8", size=3).replace("r0[%1]", "r0[%0]").replace("%1 = LOAD int8 b2[i0]\n", "")
    )
    kernel = parse_kernel(text.replace("  b2: int8[6]\n", ""))
    buffers = {1: np.array([0, 3, 2, -1, 100, 1], np.int8)}
    assert evaluate(kernel, buffers)[0].tolist() == [11, 0, 13, 0, 0, 16]
    same_as_golden(kernel, plan_kernel(canonicalize(kernel)), buffers)
