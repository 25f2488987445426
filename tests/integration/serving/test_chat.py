"""Agents as models: the published client of the OpenAI API against the monitor."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from sleipnir.scheduler.config.monitor_users import ROLES, MonitorUsers, new_line
from sleipnir.worker.monitor.access import Access
from sleipnir.worker.monitor.serving.chat.messages import MOST_MESSAGES
from sleipnir.worker.monitor.serving.serving import MOST_WAITING
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, says
from tests.support.pages import blocks
from tests.support.site import KEY, Answer, ServedSite

ECHO = 'start: done\nnodes: {done: {type: end, output: "{{initial_prompt}}"}}'
TALKER = "model: openai:m\ninstructions: You garden.\n"


def user(text: str) -> Any:
    """A message of the user."""
    return {"role": "user", "content": text}


def ask(site: ServedSite) -> Answer:
    """Send a message to the agent that repeats it, without the published client."""
    body = json.dumps({"model": "echo", "messages": [user("a")]})
    return site.ask("/v1/chat/completions", "POST", body=body)


def test_the_models_are_the_agents_that_are_served(chat: OpenAI) -> None:
    assert [model.id for model in chat.models.list()] == ["echo"]
    assert chat.models.retrieve("echo").owned_by == "sleipnir"
    with pytest.raises(openai.NotFoundError) as refused:
        chat.models.retrieve("own")
    assert refused.value.code == "model_not_found"


def test_the_last_message_is_the_prompt_and_the_output_the_reply(
    engine: Engine, chat: OpenAI
) -> None:
    answer = chat.chat.completions.with_raw_response.create(
        model="echo",
        messages=[user("Before."), {"role": "assistant", "content": "Yes."}, user("Now.")],
        temperature=0.5,
        extra_body={"of_tomorrow": {"any": 1}},
    )

    reply = answer.parse()
    run = engine.run(answer.headers["x-sleipnir-run-id"])
    assert reply.choices[0].message.content == "Now."
    assert reply.choices[0].finish_reason == "stop"
    assert reply.model == "echo"
    assert (run.agent, run.output, run.context.user) == ("echo", "Now.", "operator")
    assert engine.client.queries.count_questions() == 0


def test_a_normal_agent_knows_what_was_said_before(
    engine: Engine, chat: OpenAI, server: ModelServer
) -> None:
    engine.write_normal("talker", TALKER)
    server.script.add(says("Five litres.", prompt_tokens=7, completion_tokens=3))

    reply = chat.chat.completions.create(
        model="talker",
        messages=[
            {"role": "system", "content": "Be brief."},
            user("I water my roses."),
            {"role": "assistant", "content": "Good."},
            {"role": "user", "content": [{"type": "text", "text": "How much?"}]},
        ],
    )

    told = [(m["role"], m["content"]) for m in server.requests[0].messages if m["role"] != "system"]
    assert told == [
        ("user", "Be brief."),
        ("user", "I water my roses."),
        ("assistant", "Good."),
        ("user", "How much?"),
    ]
    assert reply.choices[0].message.content == "Five litres."
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.total_tokens) == (7, 10)


def test_a_request_that_is_sent_again_starts_no_other_run(engine: Engine, chat: OpenAI) -> None:
    def send(text: str, key: str, **metadata: str) -> str | None:
        reply = chat.chat.completions.create(
            model="echo",
            messages=[user(text)],
            metadata=metadata,
            extra_headers={"Idempotency-Key": key},
        )
        return reply.choices[0].message.content

    assert [send("a", "k"), send("a", "k"), send("b", "other", session="s")] == ["a", "a", "b"]
    assert send("b", "other", session="s") == "b"
    assert len(engine.newest_runs()) == 2
    with pytest.raises(openai.BadRequestError, match="another submission"):
        send("b", "k")
    send("a", "k" * 10_000)
    with pytest.raises(openai.BadRequestError, match="another submission") as refused:
        send("b", "k" * 10_000)
    assert len(str(refused.value)) < 1_000


def test_a_program_uses_an_agent_as_written(
    engine: Engine, site: ServedSite, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.write("translate", ECHO)
    (program,) = blocks("serving.md", "python")

    exec(program.replace(":5555/", f":{site.port}/").replace('"KEY"', f'"{KEY}"'), {})

    assert capsys.readouterr().out == "Hello\n"


def test_a_failed_run_is_an_error_with_its_code_and_is_not_repeated(
    engine: Engine, chat: OpenAI
) -> None:
    engine.write(
        "broken",
        """
        settings: {tolerate_failures: false}
        start: s
        nodes:
          s: {type: script, script: s.sh, next: z}
          z: {type: end}
        """,
        {"s.sh": "exit 3"},
    )

    with pytest.raises(openai.InternalServerError) as failed:
        chat.chat.completions.create(model="broken", messages=[user("Go.")])

    (run_id,) = engine.newest_runs()
    failure = engine.failure(run_id)
    assert failed.value.code == failure.code
    assert run_id in failed.value.message


@pytest.mark.parametrize(
    ("body", "error", "code"),
    [
        ({"model": "own"}, openai.NotFoundError, "model_not_found"),
        ({"model": "nobody"}, openai.NotFoundError, "model_not_found"),
        ({"model": "/etc"}, openai.NotFoundError, "model_not_found"),
        ({"messages": []}, openai.BadRequestError, "bad_request"),
        ({"messages": [{"role": "system", "content": "a"}]}, openai.BadRequestError, "bad_request"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            openai.BadRequestError,
            "bad_request",
        ),
        ({"metadata": {"session": "a/b"}}, openai.BadRequestError, "invalid"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_in_the_protocol_s_form(
    engine: Engine, chat: OpenAI, body: dict[str, Any], error: type[openai.APIError], code: str
) -> None:
    with pytest.raises(error) as refused:
        chat.chat.completions.create(**{"model": "echo", "messages": [user("a")], **body})

    assert refused.value.code == code
    assert engine.newest_runs() == []


def test_who_may_only_read_starts_nothing(engine: Engine, site: ServedSite, tmp_path: Path) -> None:
    users = tmp_path / "users"
    lines = [new_line(f"api-{role}", role, role) for role in ROLES]
    users.write_text("\n".join(lines))

    with ServedSite(engine.client, Access(users=MonitorUsers(users))) as guarded:
        url = f"http://127.0.0.1:{guarded.port}/v1"

        def ask(key: str) -> Any:
            with OpenAI(base_url=url, api_key=key) as client:
                return client.chat.completions.create(model="echo", messages=[user("a")])

        with pytest.raises(openai.AuthenticationError):
            ask("nobody.x")
        with pytest.raises(openai.PermissionDeniedError) as refused:
            ask("api-answer.answer")
        assert "operate" in refused.value.message
        assert engine.newest_runs() == []
        assert ask("api-operate.operate").choices[0].message.content == "a"


def test_nothing_is_served_unless_it_is_named(engine: Engine) -> None:
    engine.configure()
    with ServedSite(engine.client) as site:
        answers = [
            site.ask("/v1/models"),
            site.ask("/v1/chat/completions", "POST", body='{"model": "echo"}'),
        ]

    assert [(answer.status, answer.json["error"]["code"]) for answer in answers] == [
        (404, "not_found")
    ] * 2


def test_a_conversation_has_so_many_messages(chat: OpenAI) -> None:
    messages = [user("a")] * MOST_MESSAGES

    assert chat.chat.completions.create(model="echo", messages=messages).choices
    with pytest.raises(openai.BadRequestError, match=f"{MOST_MESSAGES}"):
        chat.chat.completions.create(model="echo", messages=[*messages, user("a")])


def test_so_many_requests_wait_and_no_more(site: ServedSite) -> None:
    with ExitStack() as taken:
        for _ in range(MOST_WAITING):
            taken.enter_context(site.site.serving.place())
        figures = {each.name: each for each in site.site.figures.collect()}
        refused = ask(site)
    served = ask(site)

    assert (refused.status, refused.headers["Retry-After"]) == (429, "5")
    assert refused.json["error"]["type"] == "rate_limit_error"
    assert figures["sleipnir_monitor_serving"].samples[0].value == MOST_WAITING
    assert served.status == 200
