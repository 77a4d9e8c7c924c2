"""Definitions of ONNX operators that tinygrad's importer lacks or computes differently."""
