"""A trigger as it is defined: the run that a request from another system starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias, get_args

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.graphs.document.references import is_path
from sleipnir.graphs.errors import MissingReference, TextTooLong
from sleipnir.graphs.template import evaluate_strict, references, render_strict
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.hooks.model import SealedSecret
from sleipnir.scheduler.runs.labels import require_name

MOST_TRIGGERS: Final = 1_000
MOST_TEXT: Final = 10_000  # characters of a template
MOST_SET: Final = 50  # keys of the state
MOST_HEADERS: Final = 20
MOST_KEY: Final = 200  # characters
_LONGEST_HEADER: Final = 100  # characters of its name

# What becomes of a request.
Outcome: TypeAlias = Literal["started", "repeated", "unauthorized", "refused", "limited", "failed"]
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
Verify: TypeAlias = Literal["standard", "github", "bearer", "none"]

# Headers that templates see without being named.
USUAL_HEADERS: Final = (
    *("content-type", "user-agent", "webhook-id", "webhook-timestamp"),
    *("x-github-delivery", "x-github-event"),
)
# What proves who has sent a request must not become part of a run.
_SECRET_HEADERS: Final = frozenset(
    (
        *("authorization", "cookie", "proxy-authorization"),
        *("webhook-signature", "x-hub-signature", "x-hub-signature-256"),
    )
)
_ROOTS: Final = ("body", "headers", "query")


@dataclass(frozen=True, slots=True)
class Trigger:
    """What a request to `/hooks/NAME` has to prove, and the run that it starts."""

    name: str
    agent: str  # its name where the monitor runs
    verify: Verify = "standard"
    # Templates over `body`, `headers` and `query`.
    prompt: str = ""
    state: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None  # None: what the sender's format has
    headers: tuple[str, ...] = ()  # seen besides the usual ones
    batch: str | None = None  # of the runs
    secrets: tuple[SealedSecret, ...] = ()  # the current one first; empty: none is needed
    made_ms: int = 0


@dataclass(frozen=True, slots=True)
class TriggeredRun:
    """What a request makes of a trigger's templates."""

    prompt: str
    state: Mapping[str, Any]
    key: str | None  # equal ones are the same run; None: every request starts one


def header_name(name: str) -> str:
    """Return a header as templates name it, which know no dashes."""
    return name.lower().replace("-", "_")


def require_trigger(trigger: Trigger, *, allow_anonymous: bool) -> None:
    """Check what a trigger is made of.

    Raises:
        SubmissionRefused: it is not valid.
    """
    require_name("agent", trigger.agent)
    if is_path(trigger.agent):
        raise SubmissionRefused(
            f"'{cut(printable(trigger.agent), 80)}' is a path; a trigger starts an agent by its "
            "name, which `sleipnir agents` lists"
        )
    if trigger.verify == "none" and not allow_anonymous:
        raise SubmissionRefused(
            "with --verify none, whoever reaches the monitor can start runs: say "
            "--allow-anonymous too if that is intended, or in the API `allow_anonymous`"
        )
    if len(trigger.state) > MOST_SET or len(trigger.headers) > MOST_HEADERS:
        raise SubmissionRefused(
            f"a trigger sets at most {MOST_SET} keys, and sees at most {MOST_HEADERS} more headers"
        )
    for key in trigger.state:
        require_name("key of the state", key)
    for header in trigger.headers:
        is_name = header.isascii() and header.isprintable() and len(header) <= _LONGEST_HEADER
        if header in _SECRET_HEADERS or not is_name:
            raise SubmissionRefused(
                f"the header '{cut(printable(header), 80)}' cannot be seen by templates"
            )
    if trigger.batch is not None:
        require_name("batch", trigger.batch)
    seen = {header_name(each) for each in (*USUAL_HEADERS, *trigger.headers)}
    for template in (trigger.prompt, trigger.key or "", *trigger.state.values()):
        _require_template(template, seen)


def _require_template(template: str, headers: set[str]) -> None:
    if len(template) > MOST_TEXT:
        raise SubmissionRefused(f"a template of a trigger has at most {MOST_TEXT:,} characters")
    if any("\ud800" <= character <= "\udfff" for character in template):
        raise SubmissionRefused(
            f"'{cut(printable(template), 80)}' has half of a surrogate pair, which no run can have"
        )
    for reference in references(template):
        if reference.root not in _ROOTS:
            raise SubmissionRefused(
                f"'{{{{{reference.text}}}}}' is not known: templates of a trigger see "
                "{{body.…}}, {{headers.…}} and {{query.…}}"
            )
        if reference.root == "headers" and reference.path and reference.path[1:2]:
            name = str(reference.path[1])
            if name not in headers:
                raise SubmissionRefused(
                    f"the header '{name}' is not seen: name it with --header, and write it in "
                    "lower case with _ for -"
                )


def seen_headers(trigger: Trigger, given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers of a request that templates see, by their names there."""
    seen = {*USUAL_HEADERS, *trigger.headers}
    return {header_name(name): text for name, text in given if name.lower() in seen}


def triggered(
    trigger: Trigger, layer: Mapping[str, Any], own_key: str | None, limit: int
) -> TriggeredRun:
    """Return the run that a request asks for.

    Args:
        layer: `body`, `headers` and `query` of the request.
        own_key: the id of the delivery, as the sender's format has it.
        limit: characters of a text.

    Raises:
        SubmissionRefused: the request has not what a template names, or too much of it.
    """
    try:
        prompt = render_strict(trigger.prompt, layer, limit=limit)
        state = {
            name: evaluate_strict(template, layer, limit=limit)
            for name, template in trigger.state.items()
        }
        key = own_key
        if trigger.key is not None:
            key = render_strict(trigger.key, layer, limit=limit)
    except MissingReference as error:
        missing = ", ".join(f"'{cut(printable(name), 80)}'" for name in error.references)
        raise SubmissionRefused(
            f"trigger '{trigger.name}': the request has no {missing}"
        ) from error
    except TextTooLong as error:
        raise SubmissionRefused(f"trigger '{trigger.name}': {error}") from error
    if key is not None and not 0 < len(key) <= MOST_KEY:
        raise SubmissionRefused(
            f"trigger '{trigger.name}': the key has {len(key):,} characters; 1 to {MOST_KEY} are "
            "allowed"
        )
    return TriggeredRun(prompt, state, key)
