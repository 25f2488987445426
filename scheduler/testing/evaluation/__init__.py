"""Evaluations: an agent's rows with what is expected, scored by version and compared in pairs."""
