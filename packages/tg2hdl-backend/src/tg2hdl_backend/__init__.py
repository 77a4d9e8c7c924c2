"""tinygrad glue: capture, compile and simulate tinygrad programs as hardware."""
