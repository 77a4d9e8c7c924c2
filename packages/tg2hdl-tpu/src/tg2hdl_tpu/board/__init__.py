"""The processor on a board or behind a simulated serial line: hardware, folder and driver."""
