"""IEEE-754 floating-point cores for FPGAs in Amaranth: pipelined, correctly rounded, any format."""
