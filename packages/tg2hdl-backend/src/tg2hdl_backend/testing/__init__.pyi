from .comparison import Comparison as Comparison
from .comparison import compare_with_interpreter as compare_with_interpreter
from .comparison import interpreted_outputs as interpreted_outputs
from .comparison import operations as operations
from .comparison import ulp_difference as ulp_difference
from .programs import PROGRAMS as PROGRAMS
