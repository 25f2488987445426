"""What somebody sees who comes back to a conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sleipnir.graphs.state import Snapshot, encode
from sleipnir.scheduler.runs.conversation.memory import Message, conversation_of, last_text
from sleipnir.scheduler.views.text.formatting import age

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.conversation.sessions import Session

# Of the last message and of the last reply.
_MOST_CHARACTERS = 300


def recap(session: Session, now_ms: int) -> Iterator[str]:
    """Yield the lines that say where a session was left."""
    run, state = session.run, session.state
    if run is None or not state:
        return
    snapshot = Snapshot({key: encode(value) for key, value in state.items()})
    messages = conversation_of(snapshot).messages()
    asked = [each for each in messages if each["role"] == "user"]
    since = age((now_ms - (run.ended_at or run.created_at)) / 1000)
    yield f"session {session.name}: {len(asked)} messages of yours, the last {since} ago"
    if asked:
        yield f"> {_beginning(_text(asked[-1:]))}"
    if said := last_text(messages):
        yield _beginning(said)


def _text(messages: Sequence[Message]) -> str:
    return "".join(str(each.get("content") or "") for each in messages)


def _beginning(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS].rstrip()} …"
