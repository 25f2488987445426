"""A hook as somebody asks for it: by flags or a request's body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.scheduler.client.forms import Texts, filled_in
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.hooks.model import ENDS, Hook, events_named, require_filters

_LONGEST_URL = 2_000  # characters


def require_hook_url(url: str, *, allow_private: bool) -> None:
    """Check the URL that events are sent to; the address behind it is checked at each attempt.

    Args:
        allow_private: whether the engine may reach private addresses, and so plain HTTP.

    Raises:
        SubmissionRefused: it is not valid.
    """
    about = f"webhook URL '{cut(printable(url), 80)}'"
    if len(url) > _LONGEST_URL:
        raise SubmissionRefused(f"{about}: {len(url):,} characters; {_LONGEST_URL:,} are allowed")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise SubmissionRefused(f"{about}: {error}") from error
    if parts.scheme not in ("https", "http") or not host or printable(url) != url:
        raise SubmissionRefused(f"{about}: expected https://HOST/PATH")
    if not url.isascii():
        raise SubmissionRefused(
            f"{about}: only ASCII is sent: write other characters as %XX, those of a host as xn--…"
        )
    if parts.username is not None or parts.password is not None:
        raise SubmissionRefused(
            f"{about}: it has a user or password, which everybody could read: receivers know a "
            "delivery by its signature"
        )
    if parts.scheme == "http" and not allow_private:
        raise SubmissionRefused(
            f"{about}: only https is allowed; http is with the setting allow_private_addresses"
        )


class WantedFilter(BaseModel):
    """Whose events a hook is told of; names are those of the flags of `hook create`."""

    model_config = ConfigDict(extra="forbid")

    agent: Annotated[str | None, Field(description="only events of this agent's runs")] = None
    batch: Annotated[str | None, Field(description="only those of this batch and its runs")] = None
    label: Annotated[
        dict[str, str], Field(description="only events of runs with all these labels")
    ] = {}


class WantedHook(BaseModel):
    """What a hook is made of."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(description="where events are sent")
    events: Texts = Field(
        list(ENDS), min_length=1, description="which, such as run.failed, run.* or question.asked"
    )
    filter: WantedFilter = Field(WantedFilter(), description="leaves out what other runs do")
    enabled: bool = Field(True, description="whether anything is sent")

    @classmethod
    def of(cls, document: Mapping[str, Any], *, allow_private: bool) -> Self:
        """Validate what was given.

        Raises:
            SubmissionRefused: it is not a hook; names the field.
        """
        wanted = filled_in(cls, document, "the hook")
        require_hook_url(wanted.url, allow_private=allow_private)
        events_named(wanted.events)
        require_filters(wanted.filter.agent, wanted.filter.batch, wanted.filter.label)
        return wanted


def wanted_of(hook: Hook) -> dict[str, Any]:
    """Return what a hook was made of, for changes to it."""
    return {
        "url": hook.url,
        "events": list(hook.events),
        "filter": {"agent": hook.agent, "batch": hook.batch, "label": dict(hook.labels)},
        "enabled": hook.disabled is None,
    }


def changed_form(hook: Hook, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a hook is to be made of after changes; of its filter too, only what is given."""
    before = wanted_of(hook)
    if isinstance(given := changes.get("filter"), Mapping):
        changes = {**changes, "filter": {**before["filter"], **given}}
    return {**before, **changes}
