"""Default limits of graphs."""

from __future__ import annotations

# Nodes in one super-step.
MAX_BRANCHES = 4_096
