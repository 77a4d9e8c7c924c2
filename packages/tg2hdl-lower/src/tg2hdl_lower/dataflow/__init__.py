"""From a flattened kernel to nodes without placement."""
