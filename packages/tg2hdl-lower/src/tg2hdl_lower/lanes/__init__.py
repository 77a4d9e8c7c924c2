"""How many iterations of each loop run at once, and the memory accesses of a step."""
