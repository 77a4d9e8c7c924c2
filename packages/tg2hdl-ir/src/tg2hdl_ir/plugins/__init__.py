"""Plugin interface: hooks, descriptors and the registry."""
