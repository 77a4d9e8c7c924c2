"""Memories as the plan sees them: layouts of words, and the kinds of memory."""
