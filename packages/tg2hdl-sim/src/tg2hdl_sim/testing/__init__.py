"""For tests: designs that exercise an engine, and the conformance suite for authors of engines."""
