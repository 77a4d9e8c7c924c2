"""Memories as the plan sees them: layouts of words, kinds of memory, and host access."""
