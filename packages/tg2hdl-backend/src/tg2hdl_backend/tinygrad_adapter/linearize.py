"""From a scheduled kernel to its linearized UOps on plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinygrad.codegen import to_program
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend.tinygrad_adapter.renderer import mapped_renderer
from tg2hdl_ir import Tg2hdlError, UnsupportedError

__all__ = ["linearize", "program_uops"]


def linearize(ast: UOp, opts: Sequence[Any] = ()) -> list[UOp]:
    """Linearized UOps of a scheduled kernel; `opts` are tinygrad's, none gives plain loops.

    Parameters
    ----------
    ast : UOp
        The kernel, a ``SINK``.
    opts : sequence
        tinygrad's optimizations of loops; without any the loops are plain.

    Raises
    ------
    UnsupportedError
        When tinygrad itself cannot compile the kernel.
    """
    ast = ast.replace(arg=replace(ast.arg, opts_to_apply=tuple(opts)))
    try:
        return program_uops(to_program(ast, mapped_renderer()))
    except Tg2hdlError:
        raise
    except Exception as error:
        raise UnsupportedError(
            f"tinygrad cannot compile kernel {ast.arg.name!r}: {type(error).__name__}: {error}",
            where=f"kernel {ast.arg.name}",
            hint="write this part of the model in other operations, or try another version of tinygrad",
        ) from error


def program_uops(program: UOp) -> list[UOp]:
    """UOps of a compiled tinygrad program."""
    return list(next(s for s in program.src if s.op is Ops.LINEAR).src)
