"""Open-tool synthesis flow: utilization, timing, schematics and bitstreams."""
