"""The READMEs of the shipped agents: each example prints what stands there, and all of them run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sleipnir.graphs.document.references import SHIPPED_AGENTS
from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, Script, says
from tests.support.readme_runs import (
    MODELS,
    example,
    make_world,
    matches,
    readme,
    write_mcp_servers,
)

# What a README says of its agent, in the first column of its table.
FACTS = ("may touch", "needs", "costs")
ARGUMENTS = {
    "demo": ("--var", "username=Ann"),
    "sql": ("--var", "dsn=sqlite:///none.db"),
}


@pytest.fixture(scope="module")
def model_server() -> Iterator[ModelServer]:
    with ModelServer(script=Script(otherwise=says("Done."))) as server:
        yield server


@pytest.fixture(scope="module")
def engine(
    tmp_path_factory: pytest.TempPathFactory, model_server: ModelServer
) -> Iterator[Sleipnir]:
    directory = tmp_path_factory.mktemp("readmes")
    write_mcp_servers(directory / "config")
    command = Sleipnir(
        directory,
        OPENAI_BASE_URL=model_server.base_url,
        OPENAI_API_KEY="sk-only-for-this-test",
        SLEIPNIR_MODEL="openai:gpt-4o-mini",
        SLEIPNIR_RAG_EMBEDDING_MODEL="none",
    )
    with command.up():
        yield command


@pytest.mark.parametrize("agent", MODELS)
def test_an_example_prints_and_costs_what_the_readme_says(
    engine: Sleipnir, model_server: ModelServer, agent: str, tmp_path: Path
) -> None:
    make_world(tmp_path)
    model_server.script = Script()
    model_server.requests.clear()
    MODELS[agent](model_server)
    commands, expected = example(agent)

    done = engine.type_in(commands, tmp_path)

    assert done.returncode == 0, done.stdout
    assert matches(expected, done.stdout), done.stdout
    assert f"| costs | {len(model_server.requests)} model call" in readme(agent)


@pytest.mark.parametrize("agent", MODELS)
def test_it_runs_whatever_the_prompt(
    engine: Sleipnir, model_server: ModelServer, agent: str
) -> None:
    model_server.script = Script(otherwise=says("Done."))

    done = engine("run", agent, "Tell me what you are.", *ARGUMENTS.get(agent, ()))

    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


@pytest.mark.parametrize("agent", sorted(each.name for each in SHIPPED_AGENTS.iterdir()))
def test_a_readme_says_on_one_page_what_the_agent_is(agent: str) -> None:
    text = readme(agent)

    assert text.startswith(f"# {agent}\n")
    assert len(text.splitlines()) <= 65
    assert {fact for fact in FACTS if f"\n| {fact} | " not in text} == set()
    assert f"`sleipnir test {agent}`" in text


@pytest.mark.parametrize("agent", ["deep-research", "log-digest"])
def test_the_drawing_of_a_graph_is_current(agent: str, tmp_path: Path) -> None:
    Sleipnir(tmp_path)("draw", agent, "-o", str(tmp_path / "graph.svg"))

    drawn = (SHIPPED_AGENTS / agent / "graph.svg").read_text(encoding="utf-8")

    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == drawn, "draw it anew"
    assert "(graph.svg)" in readme(agent)
