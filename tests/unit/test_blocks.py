"""Every block of code in the documentation is tried: typed in elsewhere, or read here."""

from __future__ import annotations

import ast
import re
import shlex
from builtins import __dict__ as built_in
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.skills import read_skill
from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.config.settings import FIELDS, load_settings
from sleipnir.scheduler.store.connection import kombu_url
from tests.support.command_line import take
from tests.support.pages import PAGES, ROOT, TEXTS, blocks, blocks_in_order

# Who tries the blocks of a page, by what they are marked as. Graphs (`yaml` with `nodes`) are
# validated by test_docs.py, wherever they stand; what is unmarked is a drawing or a listing.
TRIED = {
    ("CONTRIBUTING.md", "python"): "guide/test_contributing.py",
    ("README.md", "bash"): "acceptance/test_readme.py",
    ("agents.md", "markdown"): "unit/test_blocks.py",
    ("agents.md", "yaml"): "unit/test_blocks.py",
    ("ask-in-slack.md", "bash"): "acceptance/test_ask_in_slack.py",
    ("better-prompts.md", "bash"): "acceptance/test_how_tos.py",
    ("changing-agents.md", "bash"): "acceptance/test_how_tos.py",
    ("changing-agents.md", "diff"): "acceptance/test_how_tos.py",
    ("changing-agents.md", "sh"): "acceptance/test_how_tos.py",
    ("extending.md", "lua"): "integration/store/test_documented_script.py",
    ("extending.md", "python"): "unit/test_blocks.py",
    ("from-loki.md", "sh"): "acceptance/test_import.py",
    ("knowledge.md", "bash"): "acceptance/test_how_tos.py",
    ("language.md", "python"): "integration/nodes/test_documented_agents.py",
    ("limits.md", "sh"): "integration/limits/test_documented_limits.py",
    ("limits.md", "yaml"): "unit/test_blocks.py",
    ("mcp.md", "json"): "unit/graphs/mcp/test_config.py",
    ("mcp.md", "yaml"): "unit/test_blocks.py",
    ("cli.md", "json"): "unit/test_docs.py",
    ("cli.md", "sh"): "unit/test_blocks.py",
    ("cli.md", "yaml"): "unit/test_blocks.py",
    ("models.md", "yaml"): "unit/test_blocks.py",
    ("operating.md", "bash"): "acceptance/test_moving.py",
    ("operating.md", "sh"): "acceptance/test_processes.py",
    ("economy.md", "bash"): "acceptance/test_how_tos.py",
    ("economy.md", "yaml"): "unit/test_blocks.py",
    ("people.md", "bash"): "acceptance/test_how_tos.py",
    ("python.md", "python"): "guide/test_python.py",
    ("scaling.md", "sh"): "unit/test_blocks.py",
    ("scans.md", "sh"): "unit/test_blocks.py",
    ("schedules.md", "bash"): "acceptance/test_how_tos.py",
    ("serving.md", "bash"): "acceptance/test_how_tos.py",
    ("serving.md", "json"): "acceptance/test_mcp_serve.py",
    ("serving.md", "python"): "integration/serving/test_chat.py",
    ("serving.md", "yaml"): "unit/test_blocks.py",
    ("triggers.md", "bash"): "acceptance/test_how_tos.py",
    ("webhooks.md", "bash"): "acceptance/test_how_tos.py",
    ("webhooks.md", "python"): "integration/hooks/test_documented_receiver.py",
    ("webhooks.md", "yaml"): "unit/test_blocks.py",
    ("what-it-costs.md", "bash"): "acceptance/test_how_tos.py",
    ("testing-agents.md", "sh"): "acceptance/test_agent_tests.py",
    ("testing-agents.md", "yaml"): "acceptance/test_agent_tests.py",
    ("tools.md", "bash"): "unit/graphs/tools/test_documented.py",
    ("tools.md", "python"): "unit/graphs/tools/test_documented.py",
    ("tools.md", "sh"): "acceptance/test_tools_command.py",
    ("tools.md", "typescript"): "unit/graphs/tools/test_documented.py",
    ("tools.md", "yaml"): "unit/test_blocks.py",
    ("tutorial.md", "bash"): "acceptance/test_tutorial.py",
    ("tutorial.md", "sh"): "unit/test_blocks.py",
}
# What is printed or read here on every page, and settings of programs that are not ours.
ANYWHERE = {"", "text", "nginx"}
# Names that the examples of extending.md make up.
MADE_UP = {"NoteNode", "marks_document"}

# Pages with settings of config.yaml.
CONFIGURED = (
    "cli.md",
    "economy.md",
    "limits.md",
    "mcp.md",
    "models.md",
    "serving.md",
    "tools.md",
    "webhooks.md",
)
SETTINGS = [
    pytest.param(text, id=f"{page}: {text.split(maxsplit=1)[0]}")
    for page in (
        "cli.md",
        "economy.md",
        "limits.md",
        "mcp.md",
        "models.md",
        "serving.md",
        "tools.md",
        "webhooks.md",
    )
    for text in blocks(page, "yaml")
    if set(yaml.safe_load(text)) <= set(FIELDS) - {"mcp_servers"}
]


def is_graph(text: str) -> bool:
    return re.search(r"^nodes:", text, re.MULTILINE) is not None


def test_every_block_is_tried() -> None:
    found = {
        (page, language)
        for page in PAGES
        for language, text in blocks_in_order(page)
        if language not in ANYWHERE and not (language == "yaml" and is_graph(text))
    }

    assert found == TRIED.keys()


@pytest.mark.parametrize(("page", "file"), sorted({(p, file) for (p, _), file in TRIED.items()}))
def test_who_tries_a_page_names_it(page: str, file: str) -> None:
    assert page in (ROOT / "tests" / file).read_text(encoding="utf-8")


def commands() -> list[Any]:
    """Each command of a block that is not typed in as a whole: its page and its words."""
    return [
        pytest.param(words, id=f"{page}: {' '.join(words)}")
        for page in PAGES
        for text in blocks(page, "", "sh")
        for line in text.replace("\\\n", "").splitlines()
        if line.startswith("sleipnir ") and "…" not in line
        for words in [shlex.split(line, comments=True)[1:]]
    ]


@pytest.mark.parametrize("words", commands())
def test_a_command_is_understood(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~/.config/loki").mkdir(parents=True)
    for file in ("calls.jsonl", "inputs.jsonl", "people.csv", "receipts.csv"):
        (tmp_path / file).touch()
    replayed = (word for option, word in pairwise(words) if option == "--replay")
    for file in replayed:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    context = click.Context(cli, info_name="sleipnir", **cli.context_settings)

    take(context, cli.get_command(context, words[0]), [word for word in words[1:] if word != "&"])


def test_targets_of_make_that_are_named_are_there() -> None:
    named = re.findall(r"(?:^|`)make ([a-z-]+)\b", "\n".join(TEXTS.values()), re.M)

    listed = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)

    assert {"run", "test", "quick", "docs"} <= set(named)
    assert set(named) - set(listed) == set()


def test_what_may_be_uninstalled_is_installed() -> None:
    (text,) = (text for text in blocks("operating.md", "sh") if text.startswith("pip uninstall"))
    names = text.replace("\\\n", "").split()[3:]

    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")

    assert [name for name in names if f"\n{name}==" not in lock] == []


@pytest.mark.parametrize(
    "url", re.findall(r"^export SLEIPNIR_REDIS_URL=(\S+)", "\n".join(TEXTS.values()), re.M)
)
def test_an_address_of_redis_is_understood(url: str) -> None:
    assert kombu_url(url)


@pytest.mark.parametrize("text", SETTINGS)
def test_settings_are_read(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.yaml").write_text(text)

    origins = load_settings().origins

    assert {origins[name] for name in yaml.safe_load(text)} == {str(tmp_path / "config.yaml")}


def test_secrets_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = (text for text in blocks("mcp.md", "yaml") if "TOKEN" in text)
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(tmp_path))
    (tmp_path / "secrets.yaml").write_text(text)
    (tmp_path / "secrets.yaml").chmod(0o600)

    assert load_settings().values.secrets.resolve("{{ISSUES_TOKEN}}") == "abc"


def test_a_graph_lists_servers_and_its_node_uses_one(tmp_path: Path) -> None:
    servers, tools, *_ = blocks("mcp.md", "yaml")
    graph = f"name: a\nmodel: openai:m\n{servers}start: ask\nnodes:\n  ask:\n    type: llm\n"
    (tmp_path / "graph.yaml").write_text(f"{graph}    prompt: Find it.\n    {tools}")

    agent = load_agent(tmp_path)

    assert agent.findings == ()
    assert agent.graph is not None
    assert agent.graph.mcp_servers == ["ddg-search"]


@pytest.mark.parametrize("text", blocks("agents.md", "yaml"))
def test_a_normal_agent_has_no_findings(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)

    assert load_agent(tmp_path).findings == ()


def test_a_skill_is_read(tmp_path: Path) -> None:
    (text,) = blocks("agents.md", "markdown")
    (tmp_path / "SKILL.md").write_text(text)

    skill = read_skill(tmp_path / "SKILL.md")

    assert skill.description == "Writes release notes from the history of a repository."


@pytest.mark.parametrize("text", blocks("extending.md", "python"))
def test_an_example_for_those_who_extend_it_uses_names_that_there_are(text: str) -> None:
    tree = ast.parse(text)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    sources = "\n".join(
        file.read_text(encoding="utf-8")
        for package in ("graphs", "scheduler", "worker")
        for file in (ROOT / package).rglob("*.py")
    )

    used = {node.id for node in names} - own - MADE_UP - built_in.keys()

    assert {name for name in used if not re.search(rf"\b{name}\b", sources)} == set()
