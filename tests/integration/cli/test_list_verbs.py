"""`ps`, `inbox`, `batches`, `batch --status`: what they print of a Redis with runs in it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.cli.arguments import complete_batches, complete_runs
from sleipnir.scheduler.runs.hooks.model import ENDS, Hook
from sleipnir.scheduler.runs.inbound.triggers import Trigger
from sleipnir.scheduler.runs.model import RunContext
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.hooks.triggers import Triggers
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.parking import wait_for
from tests.support.engine import Engine
from tests.support.redis_server import RedisServer
from tests.support.runs import a_question, a_run, begin, finish, submit

Call = Callable[..., Result]


# What a list of open runs says here, where nothing takes them.
NO_WORKER = "no worker is running on this Redis; start one with `sleipnir worker --scheduler`\n"


@pytest.fixture
def call(redis_server: RedisServer, engine: Engine) -> Call:
    """The command line, on the Redis of the test's engine."""

    def call(*arguments: str) -> Result:
        verb, *others = arguments
        return CliRunner().invoke(
            cli, [verb, "--redis", redis_server.url, *others], standalone_mode=False
        )

    return call


def submitted(engine: Engine, *names: str, **fields: Any) -> list[str]:
    """Runs with ids that begin with these names, a second apart."""
    made = []
    for name in names:
        engine.clock.move(1)
        made.append(name.ljust(16, "0"))
        submit(engine, made[-1], **fields)
    return made


def documents(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def ids(result: Result) -> list[str]:
    return [document["run_id"] for document in documents(result)]


def continued(result: Result) -> list[str]:
    """The arguments of the command that the last line says to continue with."""
    program, *arguments = shlex.split(result.stderr.splitlines()[-1].split("continue with: ")[1])
    assert program == "sleipnir"
    return arguments


def ask(engine: Engine, run_id: str) -> None:
    lease = begin(engine, "1/s", run_id=run_id)
    engine.store.parking.park(lease, [wait_for(a_question("1/s", run_id))])


# ---- ps


def test_a_page_says_how_many_runs_there_are_and_how_to_continue(
    engine: Engine, call: Call
) -> None:
    made = submitted(engine, "11", "22", "33", "44", "55", agent="draft")

    first = call("ps", "--agent", "draft", "--limit", "2", "--json")
    second = call(*continued(first), "--json")
    third = call(*continued(second), "--json")

    assert first.stderr.startswith(
        "2 of 5 runs; continue with: sleipnir ps --agent draft --limit 2"
    )
    assert [*ids(first), *ids(second), *ids(third)] == made[::-1]
    assert third.stderr == "1 of 5 runs\n"


def test_rows_are_a_table_newest_first(engine: Engine, call: Call) -> None:
    submitted(engine, "11", "22", agent="draft")

    done = call("ps")

    head, newest, oldest = done.stdout.splitlines()
    assert head.split() == ["RUN", "AGENT", "STATUS", "AT", "AGE", "TOKENS", "COST"]
    assert newest.split()[:4] == ["22".ljust(16, "0"), "draft", "queued", "s"]
    assert oldest.startswith("11")
    assert done.stderr == f"{NO_WORKER}2 runs\n"


def test_conditions_hold_together(engine: Engine, call: Call) -> None:
    submitted(engine, "11", agent="draft", batch="night", labels={"team": "red"})
    submitted(engine, "22", agent="draft", labels={"team": "red", "tier": "1"})
    submitted(engine, "33", agent="digest", batch="night", labels={"team": "blue"})
    finish(engine, "22".ljust(16, "0"))

    def listed(*flags: str) -> list[str]:
        return [run_id[:2] for run_id in ids(call("ps", "--json", *flags))]

    assert listed("--status", "succeeded") == ["22"]
    assert listed("--status", "succeeded", "--status", "queued") == ["33", "22", "11"]
    assert listed("--agent", "draft", "--status", "queued") == ["11"]
    assert listed("--agent", "draft", "--agent", "digest") == ["33", "22", "11"]
    assert listed("--batch", "night") == ["33", "11"]
    assert listed("--label", "team=red") == ["22", "11"]
    assert listed("--label", "team=red", "--label", "tier=1") == ["22"]
    assert listed("--batch", "night", "--label", "team=red", "--agent", "draft") == ["11"]
    assert listed("--batch", "day") == []


def test_times_bound_a_list(engine: Engine, call: Call) -> None:
    submitted(engine, "11", "22", "33")
    at_22 = to_rfc3339(engine.clock() - 1000)

    assert ids(call("ps", "--json", "--since", at_22)) == ["33".ljust(16, "0"), "22".ljust(16, "0")]
    assert ids(call("ps", "--json", "--until", at_22)) == ["11".ljust(16, "0")]
    # All of this was years ago by the clock of the commands.
    assert call("ps", "--since", "7d").stderr == "no run matches\n"
    assert call("ps", "--until", "7d").stderr == f"{NO_WORKER}3 runs\n"


@pytest.mark.parametrize("flag", ["--since", "--until"])
def test_a_time_that_is_none_is_refused(call: Call, flag: str) -> None:
    done = CliRunner().invoke(cli, ["ps", flag, "yesterday"])

    assert done.exit_code == 2
    assert "'yesterday' is neither an age such as 15m, 4h or 7d" in done.stderr


def test_a_bad_cursor_is_refused_in_one_line(engine: Engine, call: Call) -> None:
    for verb, what in (("ps", "runs"), ("inbox", "questions"), ("batches", "batches")):
        done = call(verb, "--cursor", "later")

        assert done.return_value == 2
        assert done.stderr.startswith(f"error: 'later' is not a valid cursor for a list of {what};")
        assert len(done.stderr.splitlines()) == 1


def test_a_list_of_nothing_says_so(engine: Engine, call: Call) -> None:
    assert call("ps").stderr == "no runs yet; start one with: sleipnir run log-digest sample\n"
    assert call("ps", "--status", "failed").stderr == "no run matches\n"
    assert call("inbox").stderr == "no open questions\n"
    assert call("batches").stderr == "no batches yet; start one with: sleipnir batch AGENT INPUT\n"
    assert call("ps", "-q").output == ""


@pytest.fixture
def family(engine: Engine) -> list[str]:
    """A run, its child run, and one that has none; the oldest first."""
    root, childless = submitted(engine, "11", "22")
    engine.clock.move(1)
    lease = begin(engine, "1/s", run_id=root)
    child = "11".ljust(16, "a")
    context = RunContext(root=root, depth=1)
    new = a_run(child, agent="helper", parent=f"{root} 1/s", context=context)
    engine.store.parking.spawn(lease, new, 300)
    return [root, childless, child]


def test_child_runs_are_listed_if_wanted(call: Call, family: list[str]) -> None:
    root, childless, child = family

    assert ids(call("ps", "--json")) == [childless, root]
    everything = call("ps", "--all", "--json")
    assert ids(everything) == [child, childless, root]
    assert [document["parent"] for document in documents(everything)] == [root, None, None]
    assert ids(call("ps", "--all", "--agent", "helper", "--json")) == [child]


def test_a_tree_shows_child_runs_below_their_parents(call: Call, family: list[str]) -> None:
    root, childless, child = family

    lines = call("ps", "--tree").stdout.splitlines()
    listed = documents(call("ps", "--tree", "--json"))

    assert [line.split()[0] for line in lines[1:]] == [childless, root, child]
    assert lines[3].startswith(f"  {child}  helper")
    assert [run["run_id"] for run in listed] == [childless, root, child]
    assert [run["parent"] for run in listed] == [None, None, root]
    assert {run["root"] for run in listed[1:]} == {root}


def test_a_tree_folds_what_is_more_than_one_reads(engine: Engine, call: Call) -> None:
    (root,) = submitted(engine, "11")
    children = [f"11{number:014x}" for number in range(1, 26)]
    for child in children:
        submit(engine, child, parent=f"{root} 1/s")
    engine.redis.rpush(run_key("children", root), *children)
    finish(engine, children[-1])

    lines = call("ps", "--tree").stdout.splitlines()

    assert len(lines) == 1 + 1 + 20 + 1
    assert lines[-1].strip() == "… 5 more: 4 queued, 1 succeeded"


def test_a_page_shows_the_first_of_many_child_runs(engine: Engine, call: Call) -> None:
    (root,) = submitted(engine, "11")
    children = [f"11{number:014x}" for number in range(1, 101)]
    for child in children:
        submit(engine, child, parent=f"{root} 1/s")
    engine.redis.rpush(run_key("children", root), *children)
    finish(engine, children[-1])

    lines = call("show", root).stdout.splitlines()
    (document,) = documents(call("show", root, "--json"))

    first = next(number for number, line in enumerate(lines) if line.startswith("CHILD"))
    assert [line.split()[0] for line in lines[first + 1 : first + 21]] == children[:20]
    assert lines[first + 21 :] == ["… 80 more: 79 queued, 1 succeeded"]
    assert [child["run_id"] for child in document["children"]] == children
    assert document["more_children"] == {}


def test_all_and_tree_exclude_each_other() -> None:
    done = CliRunner().invoke(cli, ["ps", "--all", "--tree"])

    assert done.exit_code == 2
    assert "leave out --all" in done.stderr


# ---- inbox


def test_the_inbox_is_read_a_page_at_a_time(engine: Engine, call: Call) -> None:
    made = submitted(engine, "11", "22", "33", batch="night")
    for run_id in made:
        engine.clock.move(1)
        ask(engine, run_id)

    first = call("inbox", "--batch", "night", "--limit", "2", "--json")
    second = call(*continued(first), "--json")

    assert "continue with: sleipnir inbox --batch night --limit 2 --cursor" in first.stderr
    assert [*ids(first), *ids(second)] == made
    assert call("inbox", "--limit", "2").stderr.startswith("2 of 3 questions; continue with:")
    assert call("inbox", "--agent", "nobody").stderr == "no open questions\n"
    table = call("inbox").stdout.splitlines()
    assert table[1].split()[:3] == [made[0], "tested", "s"]


# ---- batches


def test_batches_tell_what_is_done_of_what_is_to_come(engine: Engine, call: Call) -> None:
    engine.store.batches.announce("night", "draft", 1200)
    done, waiting, _ = submitted(engine, "11", "22", "33", batch="night", agent="draft")
    finish(engine, done)
    ask(engine, waiting)
    submitted(engine, "44", batch="by hand")

    listed = call("batches")
    (by_hand, night) = documents(call("batches", "--json"))

    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["BATCH", "AGENT", "DONE", "FAILED", "WAITING", "OPEN", "TOKENS", "COST", "AGE"],
        ["by", "hand", "-", "0/1", "-", "-", "1", *listed.stdout.split("\n")[1].split()[-3:]],
        ["night", "draft", "1/1,200", "-", "1", "1", *listed.stdout.split("\n")[2].split()[-3:]],
    ]
    assert listed.stderr == "2 batches\n"
    assert (by_hand["batch"], by_hand["agent"], by_hand["lines"]) == ("by hand", None, None)
    assert (night["runs"], night["succeeded"], night["waiting"], night["open"]) == (3, 1, 1, 1)
    assert night["last_activity"] == to_rfc3339(engine.clock() - 1000)


def test_one_batch_is_told_in_a_line(engine: Engine, call: Call) -> None:
    engine.store.batches.announce("night", "draft", 1200)
    done, _ = submitted(engine, "11", "22", batch="night")
    finish(engine, done)

    assert call("batch", "--status", "night").stdout == (
        "night: 2 runs of 1,200 lines: 1 succeeded, 1 open\n"
    )
    (listed,) = documents(call("batches", "--json"))
    (told,) = documents(call("batch", "--status", "night", "--json"))
    assert {**told, "age_s": 0} == {**listed, "age_s": 0, "nodes": [], "routes": []}
    assert "no batch 'day'" in str(call("batch", "--status", "day").exception)
    for given, name in (("draft", "AGENT"), ("--redo=all", "--redo"), ("--budget=1", "--budget")):
        ignored = call("batch", "--status", "night", given)
        assert f"takes no {name}" in str(ignored.exception)


# ---- completion


def test_runs_and_batches_are_completed(engine: Engine, redis_server: RedisServer) -> None:
    submitted(engine, "11", "12", "22", batch="night", agent="draft")
    command = cli.get_command(cli.make_context("sleipnir", ["ps"]), "ps")
    assert command is not None
    context = command.make_context("ps", ["--redis", redis_server.url])
    parameter = command.params[0]

    runs = complete_runs(context, parameter, "1")
    batches = complete_batches(context, parameter, "ni")

    assert [(item.value[:2], item.help) for item in runs] == [
        ("12", "draft, queued"),
        ("11", "draft, queued"),
    ]
    assert [(item.value, item.help) for item in batches] == [("night", "0 of 3 runs are over")]


def test_hooks_and_triggers_are_completed(engine: Engine, redis_server: RedisServer) -> None:
    engine.store.hooks.put(Hook("nightly", "https://ops.example", ENDS), None)
    Triggers(engine.store).put(Trigger("nights", "draft"), None)

    found = {kind: _completed(kind, "ni", redis_server.url) for kind in ("hook", "trigger")}
    engine.redis.flushall()

    assert found == {"hook": ["nightly"], "trigger": ["nights"]}


def _completed(kind: str, typed: str, url: str) -> list[str]:
    group = cli.get_command(cli.make_context("sleipnir", [kind]), kind)
    assert isinstance(group, click.Group)
    show = group.commands["show"]
    context = show.make_context("show", [typed, "--redis", url])
    return [item.value for item in show.params[0].shell_complete(context, typed)]
