"""Printed form of kernels and programs; `tg2hdl_ir.parser` reads it back.  `tg2hdl_ir.listing` shows the form."""

from __future__ import annotations

from tg2hdl_ir.listing import describe, format_variable, quote
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.program import ProgramIR

__all__ = ["describe", "format_kernel", "format_program"]


def format_kernel(kernel: KernelIR, *, show_buffers: bool = True) -> str:
    """Print a kernel, without its `source`.

    Parameters
    ----------
    kernel : KernelIR
    show_buffers : bool
        Print the buffers too; `parse_kernel` needs them.
    """
    return kernel.format(show_buffers)


def format_program(program: ProgramIR) -> str:
    """Print a program, without the contents of its weights; kernels that are called twice are printed once."""
    lines = [f"program {quote(program.name)}"]
    for n, b in enumerate(program.buffers):
        shape = ",".join(map(str, b.shape))
        lines.append(f"  m{n} {quote(b.name)}: {b.dtype}[{shape}] {b.role}")
    lines.extend(f"  {format_variable(v)}" for v in program.variables)
    kernels = list(dict.fromkeys(call.kernel for call in program.calls))
    for call in program.calls:
        arguments = ", ".join(f"m{n}" for n in call.buffers)
        values = "".join(f" ${name}={value}" for name, value in call.values)
        lines.append(f"  call {kernels.index(call.kernel)}({arguments}){values}")
    lines.append("  return " + ", ".join(f"m{n}" for n in program.outputs))
    return "\n".join(["\n".join(lines) + "\n", *(format_kernel(k) for k in kernels)])
