from tg2hdl_backend import BenchResult as BenchResult
from tg2hdl_backend import custom_op as custom_op
from tg2hdl_backend import run_bench as run_bench
from tg2hdl_host import connect as connect
from tg2hdl_ir import Tg2hdlError as Tg2hdlError
from tg2hdl_top import CompileOptions as CompileOptions
from tg2hdl_top import Loop as Loop
from tg2hdl_top import MemoryModel as MemoryModel
from tg2hdl_top import SdramModel as SdramModel

from .accelerator import Accelerator as Accelerator
from .compile_model import compile as compile
from .exploration import Exploration as Exploration
from .exploration import explore as explore
from .quantization import quantize as quantize
from .quantized_model import QuantizedModel as QuantizedModel
from .quantized_model import integer_model as integer_model
from .results import Cycles as Cycles
from .results import KernelSummary as KernelSummary
from .results import SimulationResult as SimulationResult
from .session import Session as Session
from .splitting import SplitModel as SplitModel
from .splitting import split as split
from .width_search import search_widths as search_widths

__version__: str
