"""Which agent a name or a path means."""

from pathlib import Path

import pytest

from sleipnir.graphs.document.references import SHIPPED_AGENTS, AgentSearch
from sleipnir.graphs.errors import AgentNotFound


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

    found = search.find(reference, relative_to=tmp_path / "work")

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
        search.find(reference, relative_to=tmp_path)


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
        search.find("./gone", relative_to=tmp_path)

    assert caught.value.searched == (str(tmp_path / "gone"),)


def test_names_lists_agents_only_each_once(search: AgentSearch, tmp_path: Path) -> None:
    mine = make(tmp_path / "here" / "b")
    make(tmp_path / "shipped" / "b")
    shipped = make(tmp_path / "shipped" / "a", "config.yaml")
    make(tmp_path / "shipped" / ".hidden")
    make(tmp_path / "shipped" / "c", "notes.txt")
    (tmp_path / "shipped" / "file").touch()

    assert list(search.names().items()) == [("a", shipped), ("b", mine)]


def test_the_shipped_agents_are_beside_the_language() -> None:
    assert SHIPPED_AGENTS.parent.name == "graphs"
