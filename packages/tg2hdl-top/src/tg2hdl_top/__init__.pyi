from tg2hdl_lower import MemoryPlan as MemoryPlan

from .compile import compile_program as compile_program
from .compile import program_of_kernel as program_of_kernel
from .design import Design as Design
from .external.memory_model import MemoryModel as MemoryModel
from .external.sdram.model import SdramModel as SdramModel
from .loop import Loop as Loop
from .options import CompileOptions as CompileOptions
from .top_module import TopModule as TopModule
