"""The client against a model server on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from sleipnir.worker.llm.client import (
    OPENAI_COMPATIBLE,
    Endpoint,
    ModelCallFailed,
    ModelRequest,
    complete,
)
from sleipnir.worker.visit.cancellation import Cancellation
from tests.support.model_server import DRIPS, HANGS, RESETS, ModelServer, Reply, calls, fails, says
from tests.support.wait import wait_until

pytestmark = pytest.mark.usefixtures("each_client")

HELLO = [{"role": "user", "content": "hello"}]
HTML = "<html>Bad gateway</html>"
DEEP = "[" * 1_000_000
ASKED = ModelRequest("openai:gpt-4o-mini", HELLO)


def failure(server: ModelServer, reply: Reply, timeout_s: float = 30.0) -> ModelCallFailed:
    server.script.add(reply)
    with pytest.raises(ModelCallFailed) as raised:
        complete(ModelRequest("openai:gpt-4o-mini", HELLO), timeout_s)
    return raised.value


def test_an_answer_comes_with_its_tokens_and_price(server: ModelServer) -> None:
    server.script.add(says("hi", prompt_tokens=1_000, completion_tokens=100))

    completion = complete(ModelRequest("openai:gpt-4o-mini", HELLO))

    assert completion.text == "hi"
    assert completion.usage.prompt_tokens == 1_000
    assert completion.usage.completion_tokens == 100
    assert completion.usage.cost_usd is not None
    assert completion.usage.cost_usd > 0


def test_a_model_without_a_known_price_costs_none_not_zero(server: ModelServer) -> None:
    server.script.add(says("hi"))

    completion = complete(ModelRequest("openai:home-made", HELLO))

    assert completion.usage.cost_usd is None


def test_an_answer_without_text_is_empty(server: ModelServer) -> None:
    server.script.add(says(None))

    assert complete(ModelRequest("openai:home-made", HELLO)).text == ""


def test_a_message_holds_what_its_server_said_and_no_empty_extras(server: ModelServer) -> None:
    server.script.add(calls(("look", {})), says("hi"))

    asking = complete(ModelRequest("openai:home-made", HELLO))
    talking = complete(ModelRequest("openai:home-made", HELLO))

    assert asking.message.keys() == {"role", "tool_calls"}
    assert talking.message == {"role": "assistant", "content": "hi"}


def test_only_given_settings_are_sent(server: ModelServer) -> None:
    server.script.add(says("hi"), says("hi"))

    complete(ModelRequest("openai:home-made", HELLO, temperature=0.0, reasoning_effort="low"))
    complete(ModelRequest("openai:home-made", HELLO))

    first, second = (request.body for request in server.requests)
    assert first.pop("temperature") == 0.0
    assert first.pop("reasoning_effort") == "low"
    assert first == second == {"model": "home-made", "messages": HELLO}


def test_the_longest_reply_has_the_name_that_the_provider_takes(server: ModelServer) -> None:
    server.script.add(says("hi"), says("hi"))
    own = Endpoint(f"{OPENAI_COMPATIBLE}/m", server.base_url, "none")

    complete(ModelRequest("openai:home-made", HELLO, max_tokens=9))
    complete(ModelRequest("own:m", HELLO, max_tokens=9), endpoint=own)

    first, second = (request.body for request in server.requests)
    assert (first["max_completion_tokens"], "max_tokens" in first) == (9, False)
    assert (second["max_tokens"], "max_completion_tokens" in second) == (9, False)


def test_everything_after_the_first_colon_is_the_model(server: ModelServer) -> None:
    server.script.add(says("hi"))

    complete(ModelRequest("openai:llama3:8b", HELLO))

    assert server.requests[0].body["model"] == "llama3:8b"


def test_an_http_error_carries_status_and_the_servers_message(server: ModelServer) -> None:
    error = failure(server, fails(400, "no such model"))

    assert error.message == "HTTP 400: no such model"
    assert (error.kind, error.status, error.retry_after_s) == ("other", 400, None)


def test_a_rate_limit_carries_the_time_the_server_asks_for(server: ModelServer) -> None:
    error = failure(server, fails(429, "slow down", {"Retry-After": "2"}))

    assert error.message == "HTTP 429: slow down"
    assert (error.kind, error.status, error.retry_after_s) == ("throttled", 429, 2.0)


@pytest.mark.parametrize(
    ("text", "streamed", "message"),
    [
        (HTML, False, "the server's answer is not JSON: Expecting value: line 1"),
        (HTML, True, "the server's answer is not JSON: Expecting value: line 1"),
        (DEEP, False, "the server's answer is JSON that is nested too deeply"),
        (DEEP, True, "the server's answer is JSON that is nested too deeply"),
        ("[1, 2]", False, "Empty or invalid response from LLM endpoint. Received: [1, 2]"),
        ("null", False, "Empty or invalid response from LLM endpoint. Received: None"),
    ],
    ids=["html", "html-streamed", "deep", "deep-streamed", "list", "null"],
)
def test_an_answer_that_cannot_be_read_is_said_in_one_plain_line(
    server: ModelServer, text: str, streamed: bool, message: str
) -> None:
    server.script.add(Reply(text, fault="garbled"))

    with pytest.raises(ModelCallFailed) as raised:
        complete(ASKED, 30.0, listener=_Ignoring() if streamed else None)

    told = raised.value.message
    assert told.startswith(message)
    assert "\n" not in told
    assert not any(word in told for word in ("Traceback", "object at 0x", "APIResponse", "litellm"))


def an_error(message: str, **fields: Any) -> str:
    return json.dumps({"error": {"message": message, **fields}})


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("body", "message", "kind"),
    [
        (an_error("Provider returned error", code=429), "error 429: Provider", "throttled"),
        (an_error("slow down", code="rate_limit_exceeded"), "error 429: slow", "throttled"),
        (an_error("no", code="insufficient_quota"), "error 429: no", "quota_exceeded"),
        (an_error("broken", code="model_error"), "broken", "other"),
    ],
)
def test_an_error_told_in_place_of_a_reply_has_its_kind(
    server: ModelServer, body: str, message: str, kind: str, streamed: bool
) -> None:
    server.script.add(Reply(body, fault="garbled"))

    with pytest.raises(ModelCallFailed) as raised:
        complete(ASKED, 30.0, listener=_Ignoring() if streamed else None)

    assert raised.value.message.startswith(message)
    assert "litellm" not in raised.value.message
    assert (raised.value.kind, raised.value.status) == (kind, None)


class _Ignoring:
    """Hears a reply and keeps nothing of it."""

    def on_text(self, text: str) -> None:
        """A piece of it."""

    def end(self) -> None:
        """Its end."""


def test_a_failed_call_is_sent_once(server: ModelServer) -> None:
    for reply in (fails(500, "oops"), fails(429, "slow down"), RESETS):
        failure(server, reply)

    assert len(server.requests) == 3


def test_a_reset_connection_says_so(server: ModelServer) -> None:
    error = failure(server, RESETS)

    assert error.message.startswith("Connection reset at http://127.0.0.1:")
    assert error.kind == "unavailable"


def test_a_refused_connection_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as closed:
        monkeypatch.setenv("OPENAI_BASE_URL", closed.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")

    with pytest.raises(
        ModelCallFailed, match=r"Connection refused at http://127\.0\.0\.1:"
    ) as raised:
        complete(ModelRequest("openai:gpt-4o-mini", HELLO))

    assert raised.value.kind == "unavailable"


@pytest.mark.parametrize("reply", [HANGS, DRIPS], ids=["silence", "an endless body"])
def test_a_call_ends_at_its_time_limit(server: ModelServer, reply: Reply) -> None:
    began = monotonic()

    error = failure(server, reply, timeout_s=0.3)

    assert (error.message, error.kind) == ("timed out after 0.3s", "timed_out")
    assert 0.3 <= monotonic() - began < 5.0


def test_a_call_is_broken_off_when_nobody_waits_for_it_any_more(server: ModelServer) -> None:
    server.script.add(HANGS)
    cancellation = Cancellation()

    with ThreadPoolExecutor() as pool:
        call = pool.submit(complete, ASKED, 60.0, cancellation=cancellation)
        wait_until(lambda: server.requests, "the model is asked")
        cancellation.set()

        with pytest.raises(ModelCallFailed, match="cancelled: the run no longer needs this reply"):
            call.result(timeout=60)


def test_a_connection_on_which_nothing_was_broken_off_serves_the_next_call(
    server: ModelServer,
) -> None:
    server.script.add(says("one"), says("two"))

    complete(ASKED, cancellation=Cancellation())

    assert complete(ASKED, cancellation=Cancellation()).text == "two"


def test_keys_are_masked_in_messages(server: ModelServer) -> None:
    error = failure(server, fails(401, "wrong key: sk-only-for-this-test, not sk-0123456789ab"))

    assert error.message == "HTTP 401: wrong key: ***, not ***"


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai:gpt-4o-mini", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("gemini:gemini-2.5-flash", "GEMINI_API_KEY"),
    ],
)
def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch, model: str, variable: str) -> None:
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))]:
        monkeypatch.delenv(name)

    with pytest.raises(ModelCallFailed, match=rf"^no API key: set .*{variable}"):
        complete(ModelRequest(model, HELLO))


def test_another_provider_fails_in_the_same_words(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_BASE", server.base_url.removesuffix("/v1"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-only-for-this-test")
    server.script.add(fails(429, "slow down", {"Retry-After": "2"}), HANGS)

    with pytest.raises(ModelCallFailed, match="HTTP 429: slow down") as limited:
        complete(ModelRequest("anthropic:claude-sonnet-4-5", HELLO))
    with pytest.raises(ModelCallFailed, match=r"timed out after 0\.3s"):
        complete(ModelRequest("anthropic:claude-sonnet-4-5", HELLO), 0.3)

    assert (limited.value.kind, limited.value.retry_after_s) == ("throttled", 2.0)


def test_a_hundred_calls_wait_side_by_side(server: ModelServer) -> None:
    together = threading.Barrier(100, timeout=60)
    server.script.when(lambda _request: together.wait() >= 0, says("hi"))
    answers: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(complete(ModelRequest("openai:home-made", HELLO)).text)
        )
        for _ in range(100)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(answers) == 100


def test_the_server_runs_as_a_program_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, port_file = tmp_path / "script.json", tmp_path / "port"
    script.write_text('{"rules": [{"contains": "hello", "replies": ["hi"]}]}')
    command = [sys.executable, "-m", "tests.support.model_server", "--script", str(script)]
    with subprocess.Popen([*command, "--port-file", str(port_file)]) as program:
        wait_until(port_file.exists, "the server to write its port")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port_file.read_text()}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")

        completion = complete(ModelRequest("openai:home-made", HELLO))
        program.send_signal(signal.SIGTERM)

    assert completion.text == "hi"
    assert program.returncode == 0
