"""Cycle-accurate simulation engines behind one interface."""
