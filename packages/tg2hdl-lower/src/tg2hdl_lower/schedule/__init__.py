"""From nodes to their placement in time."""
