"""For tests: a plain reference interpreter, random kernels, and conformance suites for plugin authors."""
