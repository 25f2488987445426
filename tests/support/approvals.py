"""An agent that asks a person, for those who answer from afar."""

from __future__ import annotations

ASKS = """
start: ask
nodes:
  ask:
    type: approval
    question: Publish?
    options: ["yes", "no"]
    routes: {"yes": y, "no": n}
    on_other: n
  y: {type: end, output: published}
  n: {type: end, output: dropped}
"""
