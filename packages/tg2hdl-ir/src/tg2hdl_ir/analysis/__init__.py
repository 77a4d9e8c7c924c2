"""Analyses of the kernel IR: facts about values, loops and memory accesses.  None of them changes a kernel."""
