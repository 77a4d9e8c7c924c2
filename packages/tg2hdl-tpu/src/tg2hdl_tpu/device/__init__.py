"""The tinygrad device TINYTPU: kernels of the IR compiled to programs of the machine."""
