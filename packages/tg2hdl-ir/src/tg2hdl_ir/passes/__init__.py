"""Rewrites of the kernel IR; `tg2hdl_ir.pipeline` lists them in order."""
