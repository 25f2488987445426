"""Where scripts may lead, as far as their texts tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.graphs.validator.scripts import routes_of_scripts
from tests.support.graphs import make_graph

GRAPH = make_graph(
    {
        "name": "tested",
        "start": "gate",
        "nodes": {
            "gate": {"type": "script", "script": "gate.py", "next": "done"},
            "draft": {"type": "script", "script": "missing.py", "next": "gate"},
            "review": {"type": "script", "script": "missing.py", "next": "gate"},
            "done": {"type": "end"},
        },
    }
)


@pytest.mark.parametrize(
    ("script", "targets"),
    [
        ('print(json.dumps({"_next": "draft" if bad else None}))', ["draft"]),
        ("emit(_next='review')\nemit(_next='draft')", ["draft", "review"]),
        ('echo "{\\"_next\\": \\"draft\\"}"', ["draft"]),
        ("jq -n '{_next: \"draft\"}'", ["draft"]),
        ('text = state["review"]\nemit(_next="draft")', ["draft"]),
        ('to = "draft" if bad else "done"\nemit(_next=to)', ["draft", "done"]),
        ('n = state["review"] + state.get("done")\nto = "draft"\nemit(_next=to)', ["draft"]),
        ('write({"draft": 1})\nemit(_next=to)', []),
        ('print("draft")', []),
        ("emit(_next=draft)", []),
        ("", []),
    ],
)
def test_ids_in_quotes_are_where_a_script_may_lead(
    tmp_path: Path, script: str, targets: list[str]
) -> None:
    (tmp_path / "gate.py").write_text(script)

    assert routes_of_scripts(tmp_path, GRAPH) == [("gate", target) for target in targets]
