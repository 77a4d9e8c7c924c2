"""Typed kernel IR, verifier, golden model and plugin registry of tg2hdl."""
