"""Figures over time: what model calls used, how runs ended, the state of the engine."""
