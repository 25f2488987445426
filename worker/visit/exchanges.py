"""What models were sent and replied in one attempt of a visit, until it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import NO_USAGE, VisitCounts
from sleipnir.worker.visit.run_log import head_and_tail

if TYPE_CHECKING:
    from sleipnir.worker.llm.client import Message, ModelCallFailed, ModelRequest, Reply

# At least this many texts of full length fit into an entry.
_TEXTS = 8
# The newest of a request's messages that are kept, besides its instructions.
_MOST_MESSAGES = 200


class CallTime(NamedTuple):
    """When a call of a model was over, and how long it took."""

    seconds: float
    age_s: float  # how long before its end the visit had first begun, on the clock of Redis


@dataclass(frozen=True, slots=True)
class _Exchange:
    model: str  # asked; maybe a chain of several
    messages: Sequence[Message]  # those that were new to the model, or as many as are kept
    earlier: int  # number of the others
    reply: Reply | None
    failure: ModelCallFailed | None  # if there is no reply
    time: CallTime | None  # None: the reply was recorded by an earlier version

    def to_json(self, shown: Callable[[Any], Any], age_s: float) -> dict[str, Any]:
        """Return it as JSON; `shown` prepares texts, `age_s` is the visit's age now."""
        reply, failure = self.reply, self.failure
        made = None if reply is None else reply.usage.call
        return {
            "model": self.model if made is None else made.model,
            "earlier": self.earlier,
            "messages": shown(self.messages),
            "reply": None if reply is None else shown(reply.message),
            "error": None if failure is None else shown(_error(failure)),
            "usage": (NO_USAGE if reply is None else reply.usage).to_list(),
            "seconds": None if self.time is None else round(self.time.seconds, 3),
            **({} if self.time is None else {"ago_s": round(age_s - self.time.age_s, 3)}),
            "source": "model" if reply is None else reply.source,
            **({} if reply is None or reply.finish is None else {"finish": reply.finish}),
            **({} if reply is None or not reply.native else {"native": True}),
        }


class Taken(NamedTuple):
    """The exchanges of an attempt, as JSON text."""

    text: str
    failed: bool
    replies: Mapping[str, int]  # texts that are kept whole → the exchange with that reply


class Exchanges:
    """The requests of an attempt with their replies, or why there was none, in order."""

    def __init__(self) -> None:
        self._all: list[_Exchange] = []
        self._seen: list[Message] = []  # what the latest model has seen, its reply included
        self._failed: bool | None = None  # None until the attempt is over
        self.extraction = 0  # of the replies that a model gave: by an extractor

    def __bool__(self) -> bool:
        return self._failed is not None and bool(self._all)

    def add(self, request: ModelRequest, reply: Reply, when: CallTime | None) -> None:
        """Add an exchange; if its messages continue the latest one, only the new ones are kept.

        Of a conversation that earlier visits began, the first exchange here keeps the messages
        after the last reply: the transcripts of those visits have the others.
        """
        messages = list(request.messages)
        new = self._known(messages)
        if not self._all:
            replies = [at for at, each in enumerate(messages, 1) if each["role"] == "assistant"]
            new = max([new, *replies])
        kept = _newest(messages[new:])
        earlier = len(messages) - len(kept)
        self._all.append(_Exchange(request.model, kept, earlier, reply, None, when))
        self._seen = [*messages, reply.message]

    @property
    def made(self) -> int:
        """How many of the replies a model gave."""
        return sum(reply.source == "model" for reply in self._replies)

    @property
    def counts(self) -> VisitCounts:
        """What is counted of the replies."""
        cut = sum(reply.is_cut for reply in self._replies)
        cached = sum(reply.source in ("cached", "shared") for reply in self._replies)
        return VisitCounts(cut, 0, self.extraction, cached)

    @property
    def _replies(self) -> Iterator[Reply]:
        return (each.reply for each in self._all if each.reply is not None)

    def add_failed(self, request: ModelRequest, failure: ModelCallFailed, when: CallTime) -> None:
        """Add a request without a reply.

        Of a conversation that earlier visits began, all messages are kept: they may be the cause.
        """
        messages = list(request.messages)
        kept = _newest(messages[self._known(messages) :])
        earlier = len(messages) - len(kept)
        self._all.append(_Exchange(request.model, kept, earlier, None, failure, when))

    def _known(self, messages: list[Message]) -> int:
        """Return how many of the messages the latest exchange has already."""
        known = len(self._seen)
        return known if messages[:known] == self._seen else 0

    def close(self, *, failed: bool) -> None:
        """Note that the attempt is over, and whether it failed: they can be taken."""
        self._failed = failed

    def take(
        self,
        place: Mapping[str, Any],
        mask: Callable[[str], str],
        limit_bytes: int,
        age_s: float,
    ) -> Taken | None:
        """Take all exchanges of an attempt that is over; None if there are none, or a second time.

        Long texts are cut and secrets masked.

        Args:
            place: further fields of the entry.
            limit_bytes: the approximate size limit of its JSON text.
            age_s: of the visit, now.
        """
        failed, self._failed = self._failed, None
        if failed is None or not self._all:
            return None
        place = {**place, "failed": failed}
        exchanges = self._shown(mask, limit_bytes // _TEXTS, age_s)
        text = encode({**place, "exchanges": exchanges})
        if len(text) > limit_bytes:
            texts = sum(len(each.messages) + 1 for each in self._all)
            exchanges = self._shown(mask, limit_bytes // (2 * texts), age_s)
            text = encode({**place, "exchanges": exchanges})
        replies = {
            each["reply"].get("content"): at for at, each in enumerate(exchanges) if each["reply"]
        }
        return Taken(text, failed, replies)

    def _shown(
        self, mask: Callable[[str], str], limit: int, age_s: float
    ) -> Sequence[Mapping[str, Any]]:
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

        return [each.to_json(shown, age_s) for each in self._all]


def _newest(messages: list[Message]) -> list[Message]:
    """Return as many messages as are kept: the instructions, and the newest ones."""
    if len(messages) <= _MOST_MESSAGES:
        return messages
    instructions = messages[:1] if messages[0]["role"] == "system" else []
    return [*instructions, *messages[-_MOST_MESSAGES:]]


def _error(failure: ModelCallFailed) -> dict[str, Any]:
    return {"kind": failure.kind, "status": failure.status, "message": failure.message}
