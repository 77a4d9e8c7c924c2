"""Post-training quantization for integer hardware."""
