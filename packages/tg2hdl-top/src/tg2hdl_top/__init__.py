"""Many kernels to one design: shared buffers, sequencing and host ports."""

from tg2hdl_top.options import CompileOptions
from tg2hdl_top.program import CompiledProgram, compile_program
from tg2hdl_top.top_module import SharedMemory, TopModule

__all__ = ["CompileOptions", "CompiledProgram", "SharedMemory", "TopModule", "compile_program"]
