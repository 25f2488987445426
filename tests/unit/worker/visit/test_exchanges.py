"""What is kept of an attempt's model calls stays within its bounds."""

from __future__ import annotations

import json
from typing import Any

from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.worker.llm.client import ModelCallFailed, ModelRequest, Reply
from sleipnir.worker.visit.exchanges import CallTime, Exchanges

LIMIT_BYTES = 64 * 1024


def conversation(messages: int, text: str = "x") -> ModelRequest:
    system = {"role": "system", "content": "Be brief."}
    roles = ("user", "assistant")
    others = [{"role": roles[n % 2], "content": f"{n} {text}"} for n in range(messages - 1)]
    return ModelRequest("openai:m", [system, *others])


def taken(exchanges: Exchanges) -> dict[str, Any]:
    exchanges.close(failed=True)
    found = exchanges.take({"node": "ask"}, str, LIMIT_BYTES, 2.0)
    assert found is not None
    assert len(found.text) < 2 * LIMIT_BYTES
    entry: dict[str, Any] = json.loads(found.text)
    return entry


def test_of_a_long_conversation_that_failed_the_instructions_and_newest_messages_are_kept() -> None:
    exchanges = Exchanges()
    exchanges.add_failed(
        conversation(3_000, "y" * 5_000), ModelCallFailed("z" * 500_000), CallTime(1.0, 0.0)
    )

    (exchange,) = taken(exchanges)["exchanges"]

    assert [message["role"] for message in exchange["messages"][:2]] == ["system", "assistant"]
    assert exchange["messages"][-1]["content"].startswith("2998 y")
    assert exchange["earlier"] == 3_000 - len(exchange["messages"]) == 2_799
    assert "bytes left out" in exchange["error"]["message"]


def test_of_a_conversation_that_earlier_visits_began_only_what_is_new_is_kept() -> None:
    reply = Reply({"role": "assistant", "content": "Yes."}, NO_USAGE)
    exchanges = Exchanges()
    exchanges.add(conversation(6), reply, CallTime(1.0, 0.0))

    (exchange,) = taken(exchanges)["exchanges"]

    assert [message["content"] for message in exchange["messages"]] == ["4 x"]
    assert exchange["earlier"] == 5


def test_exchanges_of_an_attempt_are_taken_once_it_is_over_and_only_once() -> None:
    exchanges = Exchanges()
    exchanges.add(
        conversation(2),
        Reply({"role": "assistant", "content": "Yes."}, NO_USAGE),
        CallTime(1.0, 0.0),
    )

    assert exchanges.take({}, str, LIMIT_BYTES, 2.0) is None
    taken(exchanges)
    assert exchanges.take({}, str, LIMIT_BYTES, 2.0) is None
