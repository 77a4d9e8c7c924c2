"""From a plan to Amaranth components."""
