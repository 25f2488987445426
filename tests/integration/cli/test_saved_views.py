"""`ps` lists the runs of views: those that were saved here, and those of the monitor's pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.cli.many.saved_lists import complete_views
from sleipnir.scheduler.store.people.saved_views import CONDITIONS, MOST_VIEWS
from sleipnir.worker.monitor.access import Access
from sleipnir.worker.monitor.conditions import RunConditions
from tests.support.engine import Engine
from tests.support.redis_server import RedisServer
from tests.support.runs import finish, submit
from tests.support.site import KEY, ServedSite

Call = Callable[..., Result]
ME = "me@here"


@pytest.fixture
def call(redis_server: RedisServer, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line of a person, on the Redis of the test's engine."""
    monkeypatch.setenv("SLEIPNIR_USER", ME)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(
            cli, ["ps", "--redis", redis_server.url, *arguments], standalone_mode=False
        )

    return call


@pytest.fixture
def runs(engine: Engine) -> None:
    """Three runs: 11 of agent draft that succeeded, 22 of it, 33 of agent digest."""
    for name, agent in (("11", "draft"), ("22", "draft"), ("33", "digest")):
        engine.clock.move(1)
        submit(engine, name.ljust(16, "0"), agent=agent, labels={"n": name})
    finish(engine, "11".ljust(16, "0"))


def listed(result: Result) -> list[str]:
    return [json.loads(line)["run_id"][:2] for line in result.stdout.splitlines()]


def queries(result: Result) -> dict[str, str]:
    return {each["name"]: each["query"] for each in map(json.loads, result.stdout.splitlines())}


def refusal(result: Result) -> str:
    assert result.exception is not None, result.output
    return result.exception.format_message() if hasattr(result.exception, "format_message") else ""


@pytest.mark.usefixtures("runs")
def test_a_list_is_seen_again_by_its_name(call: Call) -> None:
    saved = call("--agent", "draft", "--status", "queued", "--save-view", "my drafts", "--json")
    call("--label", "n=33", "--since", "36500d", "--all", "--save-view", "labelled", "-q")

    again = call("--view", "my drafts", "--json")

    assert listed(saved) == listed(again) == ["22"]
    assert listed(call("--view", "labelled", "--json")) == ["33"]
    assert queries(call("--views", "--json")) == {
        "labelled": "label=n%3D33&since=36500d&children=1",
        "my drafts": "status=queued&agent=draft",
    }
    assert call("--views").stdout.splitlines() == [
        "VIEW       CONDITIONS",
        "labelled   label=n=33 since=36500d children=1",
        "my drafts  status=queued agent=draft",
    ]


@pytest.mark.usefixtures("runs")
def test_flags_beside_a_view_replace_its_own(call: Call) -> None:
    call("--agent", "draft", "--status", "queued", "--save-view", "mine")

    other = call("--view", "mine", "--status", "succeeded", "--save-view", "done", "--json")

    assert listed(other) == ["11"]
    assert queries(call("--views", "--json"))["done"] == "status=succeeded&agent=draft"


@pytest.mark.usefixtures("runs")
def test_a_page_of_a_view_says_how_to_continue(call: Call) -> None:
    call("--agent", "draft", "--save-view", "mine")

    first = call("--view", "mine", "--limit", "1")

    assert "1 of 2 runs; continue with: sleipnir ps --agent draft --limit 1" in first.stderr


@pytest.mark.usefixtures("runs")
def test_views_are_those_of_the_pages(engine: Engine, call: Call) -> None:
    body = {"name": "begins with d", "query": "agent=d&cols=took&order=newest"}
    with ServedSite(engine.client, Access(key=KEY, owner=ME)) as site:
        site.ask("/api/v1/views", "POST", body=json.dumps(body))

        shown = call("--view", "begins with d", "--json")
        call("--agent", "draft", "--save-view", "drafts")
        (_, drafts) = site.ask("/api/v1/views").json["views"]

    assert listed(shown) == ["33", "22", "11"]
    assert drafts["path"] == "/runs?agent=draft"


@pytest.mark.parametrize(
    "condition", ["q=timeout", "cause=abc", "cost=1.5", "took=5m", "order=oldest", "sort=cost"]
)
def test_a_condition_without_a_flag_is_named(
    engine: Engine, call: Call, saved: Callable[[str, str], None], condition: str
) -> None:
    saved("odd", condition)

    why = refusal(call("--view", "odd"))

    assert why.startswith(f"the view 'odd' has {condition}, for which `ps` has no flag")
    assert f"/runs?{condition}" in why


@pytest.fixture
def saved(engine: Engine) -> Callable[[str, str], None]:
    """Saves a query as a view."""

    def saved(name: str, query: str) -> None:
        engine.store.client.hset(f"sleipnir:views:{ME}", name, query)

    return saved


def test_a_view_with_a_value_that_is_none_is_refused(
    call: Call, saved: Callable[[str, str], None]
) -> None:
    saved("odd", "status=sleeping")

    assert "'sleeping' is not one of" in refusal(call("--view", "odd"))


def test_a_view_is_removed_once(call: Call) -> None:
    call("--save-view", "everything")

    gone = call("--forget-view", "everything")
    again = call("--forget-view", "everything")

    assert gone.stderr == "the view is removed\n"
    assert refusal(again) == "no view 'everything'; `sleipnir ps --views` lists yours"
    assert refusal(call("--view", "everything")) == refusal(again)
    assert call("--views").stderr.startswith("no views yet; name a list with: sleipnir ps ")


def test_what_is_no_list_is_not_saved(call: Call, saved: Callable[[str, str], None]) -> None:
    too_long = call("--save-view", "n" * 61)
    tree = call("--tree", "--save-view", "tree")
    for n in range(MOST_VIEWS):
        saved(f"v{n}", "agent=a")
    too_many = call("--save-view", "one more")

    assert too_long.stderr == "error: the name of a view has 1 to 60 characters\n"
    assert "--tree cannot be saved" in refusal(tree)
    assert too_many.stderr.startswith("error: there are 50 views already; remove one of them")
    assert (
        call("--save-view", "v0").stderr
        == "no runs yet; start one with: sleipnir run log-digest sample\n"
    )


def test_names_are_completed(
    redis_server: RedisServer, call: Call, saved: Callable[[str, str], None]
) -> None:
    saved("night", "batch=night")
    saved("day", "batch=day")
    command: Any = cli.get_command(cli.make_context("sleipnir", ["ps"]), "ps")
    context = command.make_context("ps", ["--redis", redis_server.url])

    found = complete_views(context, command.params[0], "n")

    assert [(each.value, each.help) for each in found] == [("night", "batch=night")]


def test_views_have_the_conditions_of_lists() -> None:
    assert set(CONDITIONS) == set(RunConditions.model_fields)
