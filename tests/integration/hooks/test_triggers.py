"""Other systems start runs: who may, what runs are made of, and each delivery once."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from standardwebhooks import Webhook

from sleipnir.scheduler.errors import ActionRefused, SettingInvalid, SubmissionRefused
from sleipnir.scheduler.runs.inbound.triggers import MOST_TRIGGERS
from sleipnir.scheduler.store.audit.log import AuditLog
from sleipnir.worker.monitor.access import Access
from sleipnir.worker.monitor.admission.rates import AllowedRate, VisitorRates
from sleipnir.worker.monitor.metrics import EngineMetrics
from tests.support.engine import Engine
from tests.support.hooks import hook_key
from tests.support.site import Answer, ServedSite
from tests.support.users import basic

GRAPH = """
initial_state: {issue: {}, kind: ""}
start: done
nodes: {done: {type: end, output: "{{kind}} {{issue.number}} {{initial_prompt}}"}}
"""
PATH = "/hooks/issues"


@pytest.fixture(autouse=True)
def triage(engine: Engine, tmp_path: Path) -> Iterator[None]:
    """An agent, and a key for secrets."""
    engine.configure(hook_key_file=hook_key(tmp_path))
    engine.write("triage", GRAPH)
    # Signatures of another day are not accepted.
    engine.clock.ms = 1000 * cast(Any, engine.redis).time()[0]
    yield
    engine.redis.flushall()


@pytest.fixture
def site(engine: Engine, triage: None) -> Iterator[ServedSite]:
    """Which nobody opens without a password."""
    with ServedSite(engine.client, Access(password="ann:secret")) as served:
        yield served


def make(engine: Engine, **more: Any) -> str:
    """Make the trigger `issues`, and return its secret."""
    name = more.pop("name", "issues")
    wanted = {"agent": "triage", "prompt": "{{body.title}}", "allow_anonymous": True, **more}
    return engine.client.triggers.create(name, wanted).secret or ""


def post(site: ServedSite, body: str, headers: Mapping[str, str], path: str = PATH) -> Answer:
    return site.ask(path, "POST", headers=headers, body=body)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}


def by_github(secret: str, body: str, delivery: str = "d-1") -> dict[str, str]:
    digest = hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()
    return {
        "X-Hub-Signature-256": f"sha256={digest}",
        "X-GitHub-Delivery": delivery,
        "X-GitHub-Event": "issues",
    }


def by_standard(engine: Engine, secret: str, body: str, at_s: int | None = None) -> dict[str, str]:
    seconds = engine.clock.ms // 1000 if at_s is None else at_s
    signed = Webhook(secret).sign("evt-1", datetime.fromtimestamp(seconds, UTC), body)
    return {
        "webhook-id": "evt-1",
        "webhook-timestamp": str(seconds),
        "webhook-signature": f"v1,AAAA {signed}",
    }


def test_github_starts_one_run_for_each_delivery(engine: Engine, site: ServedSite) -> None:
    secret = make(
        engine,
        verify="github",
        prompt="{{body.issue.title}}",
        set={"issue": "{{body.issue}}", "kind": "{{headers.x_github_event}}"},
    )
    body = json.dumps({"issue": {"number": 7, "title": "It is {{slow}}"}})

    first = post(site, body, by_github(secret, body))
    again = post(site, body, by_github(secret, body))
    another = post(site, body, by_github(secret, body, "d-2"))
    engine.drive()

    assert [each.status for each in (first, again, another)] == [202, 200, 202]
    assert first.json["run_id"] == again.json["run_id"] != another.json["run_id"]
    run = engine.run(first.json["run_id"])
    assert run.output == "issues 7 It is {{slow}}"
    assert run.labels == {"trigger": "issues"}
    acts = [entry.act for entry in AuditLog(engine.store.client).newest(10).entries]
    assert [(act.who, act.via, act.act, act.detail) for act in acts] == [
        ("trigger issues", "trigger", "submit", "triage")
    ] * 2


def test_the_same_delivery_at_once_is_one_run(engine: Engine, site: ServedSite) -> None:
    secret = make(engine, verify="bearer", key="{{body.id}}")
    bodies = [json.dumps({"id": "o-1", "title": f"title {number}"}) for number in range(12)]

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda body: post(site, body, bearer(secret)), bodies))

    assert sorted(each.status for each in answers) == [200] * 11 + [202]
    assert len({each.json["run_id"] for each in answers}) == 1
    assert len(engine.newest_runs()) == 1


def test_standard_webhooks_are_accepted_for_five_minutes(engine: Engine, site: ServedSite) -> None:
    secret, body = make(engine), '{"title": "hello"}'
    now_s = engine.clock.ms // 1000

    late = post(site, body, by_standard(engine, secret, body, now_s - 301))
    early = post(site, body, by_standard(engine, secret, body, now_s + 301))
    changed = post(site, body + " ", by_standard(engine, secret, body))
    right = post(site, body, by_standard(engine, secret, body))

    assert [each.status for each in (late, early, changed, right)] == [401, 401, 401, 202]


@pytest.mark.parametrize("verify", ["standard", "github", "bearer"])
def test_nobody_starts_runs_without_the_secret(
    verify: Any, engine: Engine, site: ServedSite
) -> None:
    make(engine, verify=verify)
    body, other = '{"title": "x"}', "whsec_" + "QUFB" * 10
    forged = [{}, bearer(other), by_github(other, body), by_standard(engine, other, body)]

    statuses = [post(site, body, headers).status for headers in forged]

    assert statuses == [401] * 4
    assert engine.newest_runs() == []
    # What proves nothing here is no wrong password either.
    assert (
        site.ask("/hooks/issues", headers={"Authorization": "Basic YW5uOnNlY3JldA=="}).status == 404
    )


def test_what_templates_name_must_be_there(engine: Engine, site: ServedSite) -> None:
    secret = make(engine, verify="bearer")
    refused = (
        *("{}", "no json", "", "[" * 100_000, f'{{"title": {"[" * 300}{"]" * 300}}}'),
        *('{"title": "\\ud800"}', '{"title": NaN}', '{"title": 1e999}'),
        f'{{"title": {"9" * 5_000}}}',
    )
    bodies = dict.fromkeys(refused, 422)

    found = {body: post(site, body, bearer(secret)) for body in bodies}

    assert {body: each.status for body, each in found.items()} == bodies
    assert "the request has no 'body.title'" in found["{}"].json["error"]["message"]
    assert post(site, "{}", {}, "/hooks/other").status == 404
    assert post(site, " " * (1024 * 1024 + 1), bearer(secret)).status == 413
    assert engine.newest_runs() == []


def test_what_is_wrong_with_this_machine_is_not_told_to_senders(
    engine: Engine, site: ServedSite, tmp_path: Path
) -> None:
    secret = make(engine, verify="bearer")
    make(engine, name="gone", agent="gone", prompt="", verify="none")
    engine.write("broken", "start: [")
    make(engine, name="broken", agent="broken", prompt="", verify="none")

    no_agent = [post(site, "{}", {}, f"/hooks/{name}") for name in ("gone", "broken")]
    (tmp_path / "hook.key").rename(tmp_path / "other.key")
    no_key = post(site, '{"title": "x"}', bearer(secret))

    assert [each.status for each in (*no_agent, no_key)] == [422, 422, 503]
    for answer in (*no_agent, no_key):
        assert str(tmp_path) not in answer.text
    acts = [entry.act for entry in AuditLog(engine.store.client).newest(10).entries]
    assert "no agent named 'gone'" in acts[1].outcome
    assert "graph.yaml" in acts[0].outcome


def test_forms_and_queries_are_read_as_well(engine: Engine, site: ServedSite) -> None:
    make(
        engine,
        verify="none",
        prompt="{{body.title}} {{query.from}} {{headers.x_from}}",
        header="X-From",
    )
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8", "X-From": "b"}

    started = post(site, "title=a+%26+b&x=", headers, f"{PATH}?from=there")
    engine.drive()

    assert started.status == 202
    assert engine.run(started.json["run_id"]).output == "  a & b there b"


def test_one_trigger_starts_so_many_runs_a_second(engine: Engine, site: ServedSite) -> None:
    secret = make(engine, verify="bearer")
    site.site.fired = VisitorRates(AllowedRate(2, 1e6))

    answers = [post(site, '{"title": "x"}', bearer(secret)) for _ in range(3)]

    assert [each.status for each in answers] == [202, 202, 429]
    assert int(answers[2].headers["Retry-After"]) > 0


def test_a_trigger_that_is_made_anew_starts_runs_of_its_own(
    engine: Engine, site: ServedSite
) -> None:
    body = '{"title": "x"}'
    first = post(site, body, by_github(make(engine, verify="github"), body))
    engine.client.triggers.delete("issues")
    gone = post(site, body, {})
    engine.clock.move(1)

    second = post(site, body, by_github(make(engine, verify="github"), body))

    assert (first.status, gone.status, second.status) == (202, 404, 202)


def test_a_changed_trigger_keeps_its_secret_and_knows_earlier_deliveries(
    engine: Engine, site: ServedSite
) -> None:
    secret, body = make(engine, verify="github", key="{{body.id}}"), '{"title": "x", "id": "7"}'
    first = post(site, body, by_github(secret, body))

    engine.client.triggers.edit("issues", {"prompt": "again: {{body.title}}"})
    again = post(site, body, by_github(secret, body))
    engine.client.triggers.edit("issues", {"key": None})
    another = post(site, body, by_github(secret, body, "d-2"))
    engine.drive()

    assert [each.status for each in (first, again, another)] == [202, 200, 202]
    assert engine.run(first.json["run_id"]).output == "  x"
    assert engine.run(another.json["run_id"]).output == "  again: x"
    with pytest.raises(SubmissionRefused, match="verified as github"):
        engine.client.triggers.edit("issues", {"verify": "bearer"})


@pytest.mark.parametrize("verify", ["standard", "github", "bearer"])
def test_both_secrets_are_good_while_one_is_rotated(
    verify: Any, engine: Engine, site: ServedSite
) -> None:
    earlier, body = make(engine, verify=verify), '{"title": "x"}'

    def status(secret: str) -> int:
        headers = {
            "standard": lambda: by_standard(engine, secret, body),
            "github": lambda: by_github(secret, body),
            "bearer": lambda: bearer(secret),
        }
        return post(site, body, headers[verify]()).status

    new = engine.client.triggers.rotate("issues", keep_s=60)
    meanwhile = status(earlier), status(new)
    engine.clock.move(61)

    assert 401 not in meanwhile
    assert [status(earlier) == 401, status(new) == 401] == [True, False]
    engine.client.triggers.rotate("issues", keep_s=0)
    assert status(new) == 401


def test_what_becomes_of_requests_is_counted(engine: Engine, site: ServedSite) -> None:
    secret, body = make(engine, verify="bearer", key="{{body.id}}"), '{"title": "x", "id": "7"}'
    site.site.fired = VisitorRates(AllowedRate(3, 1e6))

    for sent, headers in (
        *((body, bearer(secret)), (body, bearer(secret)), ("{}", bearer(secret))),
        *((body, bearer("x")), (body, {}), (body, bearer(secret))),
    ):
        post(site, sent, headers)

    counted = site.ask("/api/v1/triggers/issues", headers=basic("ann", "secret")).json["requests"]
    assert counted == {
        **{"started": 1, "repeated": 1, "refused": 1},
        **{"unauthorized": 2, "limited": 1, "failed": 0},
    }
    registry = CollectorRegistry()
    registry.register(EngineMetrics(engine.store, engine.store.settings))
    engine.client.triggers.delete("issues")
    name = "sleipnir_trigger_requests_total"
    assert registry.get_sample_value(name, {"outcome": "unauthorized"}) == 2
    engine.clock.move(1)
    make(engine)
    (anew,) = engine.client.triggers.list()
    assert set(engine.client.triggers.figures().of(anew).values()) == {0}


def test_what_anybody_may_fire_has_no_secret_to_rotate(engine: Engine) -> None:
    make(engine, verify="none")

    with pytest.raises(ActionRefused, match="has no secret"):
        engine.client.triggers.rotate("issues")


def test_runs_count_as_of_a_batch_if_the_trigger_names_one(
    engine: Engine, site: ServedSite
) -> None:
    secret, body = make(engine, verify="bearer", batch="inbox"), '{"title": "x"}'

    of_batch = post(site, body, bearer(secret)).json["run_id"]
    engine.client.triggers.edit("issues", {"batch": None})
    of_none = post(site, body, bearer(secret)).json["run_id"]
    engine.drive()

    assert (engine.run(of_batch).batch, engine.run(of_none).batch) == ("inbox", None)
    (row,) = engine.client.queries.batch_rows(["inbox"])
    assert row is not None
    assert (row.runs, row.ended) == (1, 1)


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"name": "a b"}, "not a valid name of a trigger"),
        ({"agent": "../x"}, "is a path"),
        ({"prompt": "{{state.x}}"}, "templates of a trigger see"),
        ({"prompt": "{{headers.x_secret}}"}, "name it with --header"),
        ({"header": "authorization"}, "cannot be seen by templates"),
        ({"batch": "a\nb"}, "not a valid name of the batch"),
        ({"wen": 1}, "wen: Extra inputs"),
        ({"verify": "none"}, "whoever reaches the monitor"),
        ({"prompt": "x" * 10_001}, "at most 10,000 characters"),
        ({"agent": "x" * 513}, "not a valid name of the agent"),
        ({"set": {"x" * 513: ""}}, "not a valid name of the key"),
        ({"header": "x" * 101}, "cannot be seen by templates"),
        ({"set": {"a": "\ud800"}}, "half of a surrogate pair"),
    ],
)
def test_what_is_no_trigger_is_refused(
    wanted: dict[str, Any], problem: str, engine: Engine
) -> None:
    name = wanted.pop("name", "issues")
    with pytest.raises(SubmissionRefused, match=problem):
        engine.client.triggers.create(name, {"agent": "triage", **wanted})
    assert engine.client.triggers.list() == []


def test_there_is_a_greatest_number_of_triggers(engine: Engine) -> None:
    make(engine)
    with pytest.raises(SubmissionRefused, match="there is a trigger 'issues' already"):
        make(engine)
    text = cast(Any, engine.redis).hget("sleipnir:triggers", "issues")
    others = {f"t{number}": text for number in range(MOST_TRIGGERS - 1)}
    cast(Any, engine.redis).hset("sleipnir:triggers", mapping=others)

    with pytest.raises(SubmissionRefused, match="there are 1,000 triggers"):
        make(engine, name="more")


def test_secrets_are_only_stored_encrypted(engine: Engine) -> None:
    secret = make(engine, verify="bearer")

    assert secret not in cast(Any, engine.redis).hget("sleipnir:triggers", "issues")
    engine.configure(hook_key_file=None)
    with pytest.raises(SettingInvalid, match="hook_key_file is not set"):
        make(engine, name="other")
