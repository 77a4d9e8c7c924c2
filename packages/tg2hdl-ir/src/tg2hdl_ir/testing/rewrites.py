"""Tests of rewrites of programs: printed IR in, printed IR out, and equal results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tg2hdl_ir.golden import evaluate_program
from tg2hdl_ir.opt import rewrite_text, rewritten_program, with_contents
from tg2hdl_ir.parser import parse_program
from tg2hdl_ir.printer import format_program

__all__ = ["check_rewrite_of_programs"]


def check_rewrite_of_programs(
    folder: Path, name: str, options: Mapping[str, Sequence[int]], *, tolerance: float = 0
) -> None:
    """Check that a rewrite makes the text of ``NAME.expect`` of that of ``NAME.ir``, and keeps the outputs.

    ``UPDATE_EXPECT=1`` writes the expected text.

    Parameters
    ----------
    tolerance : float
        Relative and absolute; 0 compares bits.

    Raises
    ------
    AssertionError
        When the text or a result is another one, or the rewrite changes nothing.
    """
    text = (folder / f"{name}.ir").read_text()
    found, path = rewrite_text(text, [name], options), folder / f"{name}.expect"
    if os.environ.get("UPDATE_EXPECT") == "1":
        path.write_text(found)
    assert found == path.read_text()
    program = with_contents(parse_program(text))
    assert found != format_program(program), "the rewrite does something"
    rng = np.random.default_rng(5)
    inputs = {
        b.name: rng.integers(0, 4, b.shape).astype(b.dtype.numpy())
        for b in program.buffers
        if b.role == "input"
    }
    made = rewritten_program(name, program, options)
    before, after = (evaluate_program(each, inputs) for each in (program, made))
    for number in program.outputs:
        label = program.buffers[number].name
        if tolerance:
            np.testing.assert_allclose(after[label], before[label], rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(after[label], before[label])
