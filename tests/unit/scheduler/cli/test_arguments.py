"""What the command line makes of arguments, options and the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

from sleipnir.scheduler.cli.app import VERBS, cli
from sleipnir.scheduler.cli.arguments import PositiveNumber, json_or_text
from sleipnir.scheduler.cli.connect import search_of
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.submission import variables_from_environment


def completions(*typed: str) -> list[str]:
    """What the shell would offer for the last of the words."""
    completer = ShellComplete(cli, {}, "sleipnir", "_SLEIPNIR_COMPLETE")
    *words, incomplete = typed
    return [item.value for item in completer.get_completions(words, incomplete)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("-2", -2),
        ("1.10", "1.10"),
        ("7e10", "7e10"),
        ("1E3", "1E3"),
        ("-0", "-0"),
        ("0.30000000000000000001", "0.30000000000000000001"),
        ("[1.10]", [1.1]),
        ("true", True),
        ("null", None),
        ('"1"', "1"),
        ('{"a": [1]}', {"a": [1]}),
        ("", ""),
        ("plain text", "plain text"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("{not json", "{not json"),
    ],
)
def test_a_value_is_json_if_it_parses_else_text(text: str, value: Any) -> None:
    assert json_or_text(text) == value
    assert type(json_or_text(text)) is type(value)


@pytest.mark.parametrize(
    "text", ['{"tone": "warm"}', '[{"name": "tone", "value": "warm"}]', '{"tone":"warm"}\n']
)
def test_variables_come_from_the_environment_in_both_spellings(text: str) -> None:
    environment = {"LOG_DIGEST_VARIABLES": text}

    assert variables_from_environment("log-digest", environment) == {"tone": "warm"}


@pytest.mark.parametrize(
    "text", ["tone=warm", '"warm"', '{"tone": 1}', '[{"name": "tone"}]', "[1]", "[" * 100_000]
)
def test_variables_that_cannot_be_read_are_an_error(text: str) -> None:
    with pytest.raises(click.UsageError, match="E610 A_VARIABLES in the environment: expected"):
        variables_from_environment("a", {"A_VARIABLES": text})


def test_no_variables_in_the_environment_are_none() -> None:
    assert variables_from_environment("a", {}) == {}


def test_flagged_directories_come_before_configured_ones(
    monkeypatch: pytest.MonkeyPatch, own_directories: None, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLEIPNIR_AGENTS_DIR", "/second:/third")

    search = search_of(Options(agents_dir=("/first",)))

    assert search.named == (Path("/first"),)
    assert [str(directory) for directory in search.directories[:4]] == [
        "/first",
        "/second",
        "/third",
        str(tmp_path / "config" / "agents"),
    ]


def test_every_verb_can_be_loaded() -> None:
    context = click.Context(cli)

    loaded = {verb: cli.get_command(context, verb) for verb in VERBS}

    assert {verb: command.name for verb, command in loaded.items() if command} == {
        verb: verb for verb in VERBS
    }


def test_agents_complete_by_name(
    monkeypatch: pytest.MonkeyPatch, own_directories: None, tmp_path: Path
) -> None:
    (tmp_path / "agents" / "logs-local").mkdir(parents=True)
    (tmp_path / "agents" / "logs-local" / "graph.yaml").touch()
    (tmp_path / "agents" / "lost").mkdir()
    monkeypatch.chdir(tmp_path)

    assert completions("run", "lo") == ["log-digest", "logs-local"]


def test_runs_complete_to_nothing_without_an_engine(own_directories: None) -> None:
    assert completions("show", "") == []


def test_verbs_complete() -> None:
    assert completions("in") == ["inbox", "init"]


def test_limits_complete_by_name_and_setting(own_directories: None) -> None:
    assert completions("limits", "--resume", "da") == ["day"]
    assert completions("limits", "--set", "day.u") == ["day.usd"]


def test_verbs_complete_after_help_too() -> None:
    assert completions("help", "in") == ["inbox", "init"]
    assert completions("help", "run", "in") == []


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e999", "1e300", "soon"])
def test_only_numbers_above_zero_that_can_be_stored_are_amounts(text: str) -> None:
    with pytest.raises(click.BadParameter):
        PositiveNumber().convert(text, None, None)
