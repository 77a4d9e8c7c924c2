"""The machine in Amaranth."""
