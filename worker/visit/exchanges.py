"""What models were sent and replied in one attempt of a visit, until it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.worker.visit.run_log import head_and_tail

if TYPE_CHECKING:
    from sleipnir.worker.llm.client import Message, ModelRequest, Reply

# At least this many texts of full length fit into an entry.
_TEXTS = 8


@dataclass(frozen=True, slots=True)
class _Exchange:
    request: ModelRequest
    messages: Sequence[Message]  # those that were new to the model
    reply: Reply
    seconds: float | None  # None: the reply came from the visit's record


class Exchanges:
    """The requests of an attempt with their replies, in order."""

    def __init__(self) -> None:
        self._all: list[_Exchange] = []
        self._seen: list[Message] = []  # what the latest model has seen, its reply included

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, request: ModelRequest, reply: Reply, seconds: float | None) -> None:
        """Add an exchange; if its messages continue the latest one, only the new ones are kept."""
        messages, known = list(request.messages), len(self._seen)
        goes_on = known > 0 and messages[:known] == self._seen
        new = messages[known:] if goes_on else messages
        self._all.append(_Exchange(request, new, reply, seconds))
        self._seen = [*messages, reply.message]

    @property
    def cut(self) -> int:
        """How many replies were cut off at their greatest length."""
        return sum(each.reply.is_cut for each in self._all)

    def entry(self, place: Mapping[str, Any], mask: Callable[[str], str], limit_bytes: int) -> str:
        """Return all exchanges as JSON text, with long texts cut and secrets masked.

        Args:
            place: further fields of the entry.
            limit_bytes: the approximate size limit.
        """
        text = self._encoded(place, mask, limit_bytes // _TEXTS)
        if len(text) <= limit_bytes:
            return text
        texts = sum(len(each.messages) + 1 for each in self._all)
        return self._encoded(place, mask, limit_bytes // (2 * texts))

    def _encoded(self, place: Mapping[str, Any], mask: Callable[[str], str], limit: int) -> str:
        def shown(value: Any) -> Any:
            match value:
                case str():
                    return head_and_tail(mask(value), limit)
                case Mapping():
                    return {key: shown(part) for key, part in value.items()}
                case list() | tuple():
                    return [shown(part) for part in value]
                case _:
                    return value

        exchanges = [
            {
                "model": each.request.model,
                "messages": shown(each.messages),
                "reply": shown(each.reply.message),
                "usage": each.reply.usage.to_list(),
                "seconds": None if each.seconds is None else round(each.seconds, 3),
                "source": each.reply.source,
                **({} if each.reply.finish is None else {"finish": each.reply.finish}),
            }
            for each in self._all
        ]
        return encode({**place, "exchanges": exchanges})
