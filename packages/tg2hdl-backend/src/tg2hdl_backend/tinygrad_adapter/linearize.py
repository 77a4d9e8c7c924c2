"""From a scheduled kernel to its linearized UOps on plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinygrad.codegen import to_program
from tinygrad.helpers import Target
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend.tinygrad_adapter.renderer import SequentialRenderer

__all__ = ["linearize", "program_uops"]


def linearize(ast: UOp, opts: Sequence[Any] = ()) -> list[UOp]:
    """Linearized UOps of a scheduled kernel; `opts` are tinygrad's, none gives plain loops."""
    ast = ast.replace(arg=replace(ast.arg, opts_to_apply=tuple(opts)))
    return program_uops(to_program(ast, SequentialRenderer(Target("HDL"))))


def program_uops(program: UOp) -> list[UOp]:
    """UOps of a compiled tinygrad program."""
    return list(next(s for s in program.src if s.op is Ops.LINEAR).src)
