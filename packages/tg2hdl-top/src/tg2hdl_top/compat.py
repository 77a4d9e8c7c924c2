"""The name of the reference: ``TopModule(kernels, connections, buf_depths)`` of kernels in execution order."""

from tg2hdl_top.top_module import TopModule

__all__ = ["TopModule"]
