"""Which agent a name or a path means."""

from dataclasses import replace
from pathlib import Path

import pytest

from sleipnir.graphs.document.references import SHIPPED_AGENTS, AgentSearch
from sleipnir.graphs.errors import AgentNotFound, AmbiguousAgent


def make(directory: Path, file: str = "graph.yaml") -> Path:
    directory.mkdir(parents=True)
    (directory / file).touch()
    return directory


@pytest.fixture
def search(tmp_path: Path) -> AgentSearch:
    return AgentSearch((tmp_path / "here", tmp_path / "absent", tmp_path / "shipped"))


def test_the_first_directory_that_has_the_name_wins(search: AgentSearch, tmp_path: Path) -> None:
    make(tmp_path / "shipped" / "plan")
    mine = make(tmp_path / "here" / "plan", "config.yaml")

    assert search.find("plan") == mine


def test_a_directory_without_agent_file_still_has_the_name(
    search: AgentSearch, tmp_path: Path
) -> None:
    make(tmp_path / "shipped" / "plan")
    (tmp_path / "here" / "plan").mkdir(parents=True)

    assert search.find("plan") == tmp_path / "here" / "plan"


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/graph.yaml"])
def test_a_path_names_a_directory_or_its_file(
    search: AgentSearch, tmp_path: Path, form: str
) -> None:
    agent = make(tmp_path / "else" / "plan")

    assert search.find(form.format(agent)) == agent


@pytest.mark.parametrize("reference", ["./plan", "plan/graph.yaml", "../work/plan"])
def test_a_relative_path_starts_where_the_caller_says(
    search: AgentSearch, tmp_path: Path, reference: str
) -> None:
    agent = make(tmp_path / "work" / "plan")

    found = search.find(reference, parent=tmp_path / "work")

    assert found.resolve() == agent.resolve()


def test_the_current_directory_may_be_an_agent(
    search: AgentSearch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make(tmp_path / "plan"))

    assert search.find(".") == Path()
    assert search.find("graph.yaml") == Path()


@pytest.mark.parametrize(
    "reference",
    ["", ".shared", "plan.yaml", "x/plan", "x/other.yaml", "y" * 300, "a\0b", "x/" * 3000],
)
def test_what_is_no_agent_is_not_found(search: AgentSearch, tmp_path: Path, reference: str) -> None:
    make(tmp_path / "here" / ".shared")

    with pytest.raises(AgentNotFound):
        search.find(reference, parent=tmp_path)


def test_a_miss_names_near_agents_and_the_places_searched(
    search: AgentSearch, tmp_path: Path
) -> None:
    make(tmp_path / "here" / "planner")
    make(tmp_path / "shipped" / "research")

    with pytest.raises(AgentNotFound) as caught:
        search.find("planer")

    assert caught.value.near == ("planner",)
    assert caught.value.searched == tuple(str(place) for place in search.directories)


def test_a_missing_path_names_the_path(search: AgentSearch, tmp_path: Path) -> None:
    with pytest.raises(AgentNotFound) as caught:
        search.find("./gone", parent=tmp_path)

    assert caught.value.searched == (str(tmp_path / "gone"),)


def test_names_lists_agents_only_each_once(search: AgentSearch, tmp_path: Path) -> None:
    mine = make(tmp_path / "here" / "b")
    make(tmp_path / "shipped" / "b")
    shipped = make(tmp_path / "shipped" / "a", "config.yaml")
    make(tmp_path / "shipped" / ".hidden")
    make(tmp_path / "shipped" / "c", "notes.txt")
    (tmp_path / "shipped" / "file").touch()

    assert list(search.names().items()) == [("a", shipped), ("b", mine)]


# ---- the current directory, which may be a stranger's


@pytest.fixture
def checkout(tmp_path: Path) -> AgentSearch:
    """A search with the agents of a checkout, and those of the engine."""
    for name in ("reviewer", "helper"):
        make(tmp_path / "shipped" / name)
    return AgentSearch((tmp_path / "own", tmp_path / "shipped"), here=tmp_path / "checkout")


@pytest.mark.parametrize("place", ["own", "shipped"])
def test_a_name_that_others_have_too_is_refused_with_both_paths(
    checkout: AgentSearch, tmp_path: Path, place: str
) -> None:
    theirs = make(tmp_path / "checkout" / "plan")
    mine = make(tmp_path / place / "plan")

    with pytest.raises(AmbiguousAgent, match=f"{theirs} and {mine}; name one of them by its path"):
        checkout.find("plan")
    assert checkout.find(str(theirs)) == theirs
    assert checkout.ambiguous() == {"plan": theirs}
    assert checkout.names()["plan"] == mine


def test_a_name_of_the_checkout_alone_needs_no_word(checkout: AgentSearch, tmp_path: Path) -> None:
    theirs = make(tmp_path / "checkout" / "plan")

    assert checkout.find("plan") == checkout.names()["plan"] == theirs


def test_a_trusted_agent_goes_before_those_of_its_name(
    checkout: AgentSearch, tmp_path: Path
) -> None:
    mine = make(tmp_path / "checkout" / "helper")
    make(tmp_path / "checkout" / "reviewer")
    search = replace(checkout, trusts=lambda directory: directory == mine)

    assert search.find("helper") == search.names()["helper"] == mine
    assert list(search.ambiguous()) == ["reviewer"]


@pytest.mark.parametrize("place", ["checkout", "own"])
def test_a_directory_named_for_this_command_goes_before_the_checkout(
    checkout: AgentSearch, tmp_path: Path, place: str
) -> None:
    make(tmp_path / "checkout" / "plan")
    make(tmp_path / "own" / "plan")
    search = replace(checkout, named=(tmp_path / place,))

    assert search.find("plan") == tmp_path / place / "plan"


def test_a_link_to_the_agent_itself_is_not_another(checkout: AgentSearch, tmp_path: Path) -> None:
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "helper").symlink_to(tmp_path / "shipped" / "helper")

    assert checkout.find("helper").resolve() == tmp_path / "shipped" / "helper"


def test_children_are_looked_for_beside_their_parent_first(
    checkout: AgentSearch, tmp_path: Path
) -> None:
    theirs = make(tmp_path / "checkout" / "helper")
    only_theirs = make(tmp_path / "checkout" / "extra")
    boss = make(tmp_path / "checkout" / "boss")
    mine = make(tmp_path / "own" / "helper")
    reviewer = tmp_path / "shipped" / "reviewer"

    assert checkout.find("helper", reviewer) == tmp_path / "shipped" / "helper"
    assert checkout.find("helper", make(tmp_path / "own" / "boss")) == mine
    assert checkout.find("helper", boss) == checkout.names(boss)["helper"] == theirs
    assert checkout.find("reviewer", boss) == reviewer
    assert checkout.find("extra", boss) == only_theirs
    for parent in (reviewer, tmp_path / "own" / "boss"):
        assert "extra" not in checkout.names(parent)
        with pytest.raises(AgentNotFound):
            checkout.find("extra", parent)


def test_a_parent_that_is_linked_came_from_where_the_link_is(
    checkout: AgentSearch, tmp_path: Path
) -> None:
    child = make(tmp_path / "checkout" / "extra")
    parent = make(tmp_path / "developed" / "boss")
    (tmp_path / "checkout" / "lead").symlink_to(parent)

    assert checkout.find("extra", parent) == child


def test_what_is_no_agent_beside_the_parent_hides_none(
    checkout: AgentSearch, tmp_path: Path
) -> None:
    boss = make(tmp_path / "project" / "boss")
    (tmp_path / "project" / "helper").mkdir()

    assert checkout.find("helper", boss) == tmp_path / "shipped" / "helper"


def test_the_shipped_agents_are_beside_the_language() -> None:
    assert SHIPPED_AGENTS.parent.name == "graphs"
