"""Bounds of graphs where the engine says nothing else."""

from __future__ import annotations

# Nodes that one super-step may have.
MAX_BRANCHES = 4_096
