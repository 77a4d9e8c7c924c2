"""The levelized engine: the netlist becomes straight-line two-state C, one evaluation per clock edge."""
