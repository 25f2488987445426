"""Tests of agents: cases in YAML, run as ordinary runs with replies that are known beforehand."""
