"""The conformance suite for operators of ONNX files.

In the tests of a plugin::

    def test_my_operator():
        (definition,) = my_plugin.tg2hdl_onnx_operators()
        x = np.arange(6, dtype=np.int32)
        check_onnx_operator(definition, [x], 3 * x, attributes={"factor": 3})
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from tg2hdl_backend.onnx import OnnxModel
from tg2hdl_backend.testing.hardware import compare_with_hardware
from tg2hdl_backend.testing.onnx_files import golden, write
from tg2hdl_ir import InputError, OnnxOperatorDef, Tg2hdlError

__all__ = ["check_onnx_operator"]

Array = npt.NDArray[Any]
_OPSET = 17


def check_onnx_operator(
    definition: OnnxOperatorDef,
    inputs: Sequence[Array | None],
    expected: Array | Sequence[Array],
    *,
    attributes: Mapping[str, Any] | None = None,
    tolerance: float = 0.0,
) -> None:
    """Check a registered operator in a file of one node: its result, weights in place of inputs, and the hardware.

    Parameters
    ----------
    inputs : sequence of ndarray or None
        Of the operator, in its order; None for one that the file leaves out.  Those at `OnnxOperatorDef.constants`
        become constants of the file.
    expected : ndarray or sequence of ndarray
        The results, from an independent source.
    attributes : mapping, optional
        Of the node.
    tolerance : float
        Largest difference of floats, as a share of the largest magnitude of a result.

    Raises
    ------
    AssertionError
        Naming the operator and the first rule that it breaks.
    """
    label = f"ONNX operator {definition.name}"
    wanted = [expected] if isinstance(expected, np.ndarray) else list(expected)
    free = [n for n, array in enumerate(inputs) if array is not None and n not in definition.constants]
    assert free, f"{label}: it has no input that depends on data, so that nothing is left for hardware"
    arrays = {n: np.asarray(array) for n, array in enumerate(inputs) if array is not None}
    with tempfile.TemporaryDirectory() as folder:

        def model(given: Sequence[int]) -> OnnxModel:
            """Model whose inputs are those at some positions; all others are in the file."""
            path = Path(folder) / "operator.onnx"
            nodes = [_node(definition, inputs, len(wanted), attributes or {})]
            write(
                path,
                nodes,
                [(f"x{n}", arrays[n].dtype, arrays[n].shape) for n in given],
                [(f"y{n}", array.dtype, array.shape) for n, array in enumerate(wanted)],
                {f"x{n}": array for n, array in arrays.items() if n not in given},
                {"": _OPSET}
                | {definition.domain: max(definition.since_version, 0 if definition.domain else _OPSET)},
            )
            return OnnxModel(path)

        for given in (free, free[:1]):
            where = f"{label} with inputs {given}"
            try:
                found = golden(model(given), *(arrays[n] for n in given))
            except Tg2hdlError as error:
                raise AssertionError(f"{where}: {error.message}") from error
            for number, (one, two) in enumerate(zip(found, wanted, strict=True)):
                _compare(f"{where}: output {number}", np.asarray(one), two, tolerance)
        compared = compare_with_hardware(model(free), *(arrays[n] for n in free))
        assert not compared.mismatches, f"{label}: hardware differs: {'; '.join(compared.mismatches)}"
        for number in (n for n in definition.constants if n in arrays):
            try:
                golden(model([*free, number]), *(arrays[n] for n in [*free, number]))
            except InputError:
                continue
            raise AssertionError(
                f"{label}: input {number} is a constant, but the operator takes one that is not"
            )


def _node(
    definition: OnnxOperatorDef, inputs: Sequence[Array | None], outputs: int, attributes: Mapping[str, Any]
) -> onnx.NodeProto:
    return onnx.helper.make_node(
        definition.op_type,
        [f"x{n}" if array is not None else "" for n, array in enumerate(inputs)],
        [f"y{n}" for n in range(outputs)],
        domain=definition.domain,
        **attributes,
    )


def _compare(label: str, found: Array, wanted: Array, tolerance: float) -> None:
    assert found.shape == wanted.shape, f"{label} has shape {found.shape}, expected {wanted.shape}"
    assert found.dtype == wanted.dtype, f"{label} has dtype {found.dtype}, expected {wanted.dtype}"
    if tolerance and wanted.dtype.kind == "f":
        same = np.isclose(
            found, wanted, rtol=0, atol=tolerance * np.abs(wanted).max(initial=0), equal_nan=True
        )
    else:
        same = (found == wanted) | ((found != found) & (wanted != wanted))
    assert same.all(), f"{label} is {found[~same][0]} where {wanted[~same][0]} is expected"
