"""Hardware of the built-in operations: combinational logic and pipelined units."""
