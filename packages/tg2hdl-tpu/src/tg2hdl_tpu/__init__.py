"""A programmable tensor processor: machine, assembler and simulators."""

from tg2hdl_ir.lazy import lazy_face

# Loaded on demand, as in the other packages.
__all__, __getattr__, __dir__ = lazy_face(__name__)
