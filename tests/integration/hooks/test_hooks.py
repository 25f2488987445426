"""Hooks as people make and change them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sleipnir.scheduler.config.secret_files.hook_key import HookKey
from sleipnir.scheduler.errors import (
    ActionRefused,
    HookNotFound,
    SettingInvalid,
    SubmissionRefused,
)
from sleipnir.scheduler.runs.hooks.model import EVENTS, MOST_HOOKS
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.model import Failure
from sleipnir.scheduler.store.keys import run_key
from tests.support.engine import Engine
from tests.support.hooks import hook_key, open_deliveries
from tests.support.runs import RUN, submit

URL = "https://ops.example/in"


@pytest.fixture(autouse=True)
def with_key(engine: Engine, tmp_path: Path) -> Iterator[None]:
    engine.configure(hook_key_file=hook_key(tmp_path))
    yield
    engine.redis.flushall()


def test_a_secret_is_shown_once_and_stored_encrypted(engine: Engine, tmp_path: Path) -> None:
    made = engine.client.hooks.create("ops", {"url": URL})

    hook = engine.client.hooks.get("ops")
    key = HookKey(str(tmp_path / "hook.key"))
    assert made.secret.startswith("whsec_")
    assert [key.open(each.sealed) for each in hook.secrets] == [made.secret]
    assert made.secret not in str(engine.redis.hgetall("sleipnir:hooks"))


def test_without_a_key_no_hook_is_made(engine: Engine, tmp_path: Path) -> None:
    engine.configure()

    with pytest.raises(SettingInvalid, match="openssl rand"):
        engine.client.hooks.create("ops", {"url": URL})

    assert engine.client.hooks.list() == []


def test_another_key_opens_no_secret(engine: Engine, tmp_path: Path) -> None:
    engine.client.hooks.create("ops", {"url": URL})
    other = tmp_path / "other.key"
    other.write_text("y" * 64)
    other.chmod(0o600)

    with pytest.raises(SettingInvalid, match="not the key that secrets of hooks were stored with"):
        HookKey(str(other)).open(engine.client.hooks.get("ops").secrets[0].sealed)


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        ("x" * 64, 0o644, "chmod 600"),
        ("short", 0o600, "has 5 characters"),
        (None, 0, "cannot read"),
    ],
)
def test_a_key_that_others_could_have_is_refused(
    tmp_path: Path, text: str | None, mode: int, problem: str
) -> None:
    file = tmp_path / "weak.key"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)

    with pytest.raises(SettingInvalid, match=problem):
        HookKey(str(file)).seal("whsec_x")


def test_a_run_whose_labels_cannot_be_read_ends_all_the_same(engine: Engine) -> None:
    engine.client.hooks.create("ops", {"url": "https://ops.example/in"})
    submit(engine, RUN)
    engine.redis.hset(run_key("run", RUN), "labels", "{")

    is_closed = engine.store.runs.close(RUN, "cancelled", Failure("R014", "cancelled", None))

    assert is_closed
    assert open_deliveries(engine) == 1


def test_every_partition_knows_whom_to_tell(engine: Engine) -> None:
    engine.client.hooks.create(
        "ops", {"url": URL, "events": ["run.*"], "filter": {"label": {"team": "a"}}}
    )
    known = {engine.redis.get(f"{partition}:hooks") for partition in ALL_PARTITIONS}
    engine.client.hooks.edit("ops", {"enabled": False})

    assert len(known) == 1
    assert '"run.failed"' in str(known)
    assert not engine.redis.exists(*(f"{partition}:hooks" for partition in ALL_PARTITIONS))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"url": "http://ops.example/"}, "only https is allowed"),
        ({"url": "https://ada:secret@ops.example/"}, "user or password"),
        ({"url": "ops.example"}, "expected https://HOST/PATH"),
        ({"url": "https://ops.example/" + "x" * 2000}, "2,020 characters"),
        ({"url": "https://öps.example/"}, "only ASCII"),
        ({"url": URL, "filter": {"agent": "x" * 513}}, "not a valid name of the agent"),
        ({"url": URL, "filter": {"batch": "a\n"}}, "not a valid name of the batch"),
        ({"url": URL, "filter": {"label": {"team": "x" * 256}}}, "the value of label 'team'"),
        ({"url": URL, "filter": {"label": {"x" * 64: "a"}}}, "not a valid name of a label"),
        ({"url": URL, "filter": {"label": {f"l{n}": "a" for n in range(17)}}}, "17 labels"),
        ({"url": URL, "events": ["run.ended"]}, "no event 'run.ended'"),
        ({"url": URL, "events": []}, "events"),
        ({"url": URL, "colour": "red"}, "colour"),
    ],
)
def test_what_is_no_hook_is_refused(engine: Engine, given: dict[str, object], problem: str) -> None:
    with pytest.raises(SubmissionRefused, match=problem):
        engine.client.hooks.create("ops", given)


def test_names_stand_for_kinds_of_events(engine: Engine) -> None:
    made = engine.client.hooks.create("ops", {"url": URL, "events": ["question.*", "run.started"]})

    assert made.hook.events == ("run.started", "question.asked", "question.answered")
    assert set(made.hook.events) < set(EVENTS)


def test_an_edit_changes_what_is_given(engine: Engine) -> None:
    engine.client.hooks.create(
        "ops", {"url": URL, "filter": {"agent": "a", "label": {"team": "a"}}}
    )

    engine.client.hooks.edit("ops", {"filter": {"agent": None}, "events": ["run.failed"]})

    hook = engine.client.hooks.get("ops")
    assert (hook.agent, dict(hook.labels), hook.events) == (None, {"team": "a"}, ("run.failed",))


def test_both_secrets_sign_while_one_is_rotated(engine: Engine) -> None:
    first = engine.client.hooks.create("ops", {"url": URL}).hook.secrets[0]

    second = engine.client.hooks.rotate("ops").hook.secrets
    engine.clock.move(2 * 86_400)
    third = engine.client.hooks.rotate("ops", keep_s=0).hook.secrets

    assert [each.sealed for each in second[1:]] == [first.sealed]
    assert second[1].until_ms == engine.clock.ms - 86_400_000
    assert len(third) == 1


def test_names_are_taken_once_and_what_is_not_there_is_said(engine: Engine) -> None:
    engine.client.hooks.create("ops", {"url": URL})
    with pytest.raises(SubmissionRefused, match="a hook 'ops' already"):
        engine.client.hooks.create("ops", {"url": URL})
    with pytest.raises(ActionRefused, match="knows no event"):
        engine.client.hooks.redeliver("ops", "evt_1")

    engine.client.hooks.delete("ops")

    with pytest.raises(HookNotFound, match="no hook 'ops'"):
        engine.client.hooks.get("ops")
    assert list(engine.redis.scan_iter("*hooks*")) == []


def test_there_is_a_greatest_number_of_hooks(engine: Engine) -> None:
    for number in range(MOST_HOOKS):
        engine.redis.hset("sleipnir:hooks", f"h{number}", '{"url": "https://x", "events": []}')

    with pytest.raises(SubmissionRefused, match="there are 100 hooks"):
        engine.client.hooks.create("more", {"url": URL})
