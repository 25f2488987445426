"""What the names of agents mean to the runs of a tree."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.child_agents import ChildAgents, digests_for, meaning, names_in

ROOT, MIDDLE = "a" * 64, "b" * 64


def test_a_name_may_mean_different_agents_to_different_parents() -> None:
    found = ChildAgents()
    found.add(MIDDLE, "helper", "shipped")
    found.add(ROOT, "helper", "mine")
    found.add(ROOT, "middle", MIDDLE)
    found.lack(MIDDLE, "gone", "not found")
    found.add(ROOT, "gone", "here")

    agents, unavailable = found.of(ROOT)

    assert meaning(agents, unavailable, ROOT, "helper") == ("mine", None)
    assert meaning(agents, unavailable, MIDDLE, "helper") == ("shipped", None)
    assert meaning(agents, unavailable, ROOT, "gone") == ("here", None)
    assert meaning(agents, unavailable, MIDDLE, "gone") == (None, "not found")
    assert meaning(agents, unavailable, ROOT, "absent") == (None, None)
    assert names_in(agents) == ["gone", "helper", "middle"]
    assert digests_for(agents, MIDDLE)["helper"] == "shipped"


def test_where_all_agree_a_name_has_one_entry() -> None:
    found = ChildAgents()
    for parent in (ROOT, MIDDLE):
        found.add(parent, "helper", "one")
        found.lack(parent, "broken", "why")

    assert found.of(ROOT) == ({"helper": "one"}, {"broken": "why"})


def test_equal_parents_with_different_children_are_refused() -> None:
    found = ChildAgents()
    found.add(ROOT, "helper", "one")

    with pytest.raises(SubmissionRefused, match="'helper' resolves to different agents"):
        found.add(ROOT, "helper", "other")
