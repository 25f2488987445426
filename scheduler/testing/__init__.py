"""Tests of agents: cases in YAML, executed as ordinary runs with predefined replies."""
