"""The form that makes or changes a trigger: its fields as texts, and what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sleipnir.graphs.state import decode
from sleipnir.scheduler.errors import SubmissionRefused

if TYPE_CHECKING:
    from tornado.web import RequestHandler

    from sleipnir.scheduler.views.types.hooks import TriggerDocument

BLANK: Final[Mapping[str, str]] = {
    **{"name": "", "agent": "", "verify": "standard", "prompt": "", "set": ""},
    **{"key": "", "header": "", "batch": ""},
}


def filled_by(trigger: TriggerDocument) -> dict[str, str]:
    """Return the fields as a trigger has them."""
    return {
        **BLANK,
        "agent": trigger["agent"],
        "prompt": trigger["prompt"],
        "set": json.dumps(trigger["set"], ensure_ascii=False, indent=2) if trigger["set"] else "",
        "key": trigger["key"] or "",
        "header": " ".join(trigger["header"]),
        "batch": trigger["batch"] or "",
    }


def sent_fields(handler: RequestHandler) -> dict[str, str]:
    """Return the fields as they were sent."""
    sent = {name: handler.get_body_argument(name, "", strip=False) for name in BLANK}
    return {name: text.replace("\r\n", "\n") for name, text in sent.items()}


def wanted_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return what is asked for, by the names of `WantedTrigger`, but for what cannot be changed.

    Raises:
        SubmissionRefused: keys of the state are no JSON object.
    """
    return {
        "agent": fields["agent"].strip(),
        "prompt": fields["prompt"],
        "set": _object(fields["set"]),
        "key": fields["key"].strip() or None,
        "header": fields["header"].replace(",", " ").split(),
        "batch": fields["batch"].strip() or None,
    }


def fixed_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return what is asked for of a new trigger besides."""
    return {
        "name": fields["name"].strip(),
        "verify": fields["verify"],
        # The form says what that means where it is chosen.
        "allow_anonymous": fields["verify"] == "none",
    }


def _object(text: str) -> Any:
    try:
        return decode(text) if text.strip() else {}
    except ValueError as error:
        raise SubmissionRefused(
            'keys of the state are a JSON object of templates, such as {"issue": "{{body.issue}}"}'
        ) from error
