"""A run as a JSON document: what archives and exports have of it.

Values of the state, checkpoints, events, logs and transcripts are JSON in it, as they were stored;
the record, and what is set aside for a retry, are texts. Fields may be added; a change that makes
older readers wrong raises `VERSION`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.state import encode
from sleipnir.scheduler.errors import RunFileInvalid
from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.runs.whole.parts import PARTS, PARTS_OF_VISITS, Part, PartForm, WholeRun

FORMAT: Final = "sleipnir-run"
VERSION: Final = 1

_RUN_ID = re.compile(r"[0-9a-f]{16}")
_EVENT_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_NUMBER = re.compile(r"[0-9]{1,13}")  # an instant in ms: until the year 2286
_NUMBERS = ("created", "ended", "step")
_NEEDED = ("agent", "digest", "status", "created", "ended", "step", "frontier", "context")


def to_json(run: WholeRun) -> str:
    """Return a run as a document; the same one for the same run."""
    head = {"format": FORMAT, "version": VERSION, "run_id": run.run_id}
    members = [encode(head)[1:-1], f'"record":{_written(_RECORD, dict(run.record))}']
    members += _members(PARTS, run.parts)
    if run.visits:
        visits = (
            f"{encode(visit)}:{{{','.join(_members(PARTS_OF_VISITS, parts))}}}"
            for visit, parts in run.visits.items()
        )
        members.append(f'"visits":{{{",".join(visits)}}}')
    return f"{{{','.join(members)}}}"


def from_json(text: str) -> WholeRun:
    """Return the run of a document.

    Raises:
        RunFileInvalid: it is not one, or is of a later version.
    """
    try:
        return _run(json.loads(text))
    except (ValueError, RecursionError) as error:  # also a number that JSON does not have
        raise RunFileInvalid(f"it is not JSON: {error}") from error


def _run(document: Any) -> WholeRun:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RunFileInvalid(f'it is not a run: its "format" is not "{FORMAT}"')
    version, run_id = document.get("version"), document.get("run_id")
    if not isinstance(version, int) or version > VERSION:
        raise RunFileInvalid(
            f"it is of version {printable(str(version))}, and this Sleipnir reads version "
            f"{VERSION} at most: upgrade it"
        )
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
        raise RunFileInvalid('its "run_id" is not 16 hexadecimal digits')
    record = _read(_RECORD, "record", document.get("record"))
    if not isinstance(record, dict) or any(name not in record for name in _NEEDED):
        raise RunFileInvalid(f'its "record" lacks one of {", ".join(_NEEDED)}')
    for name in _NUMBERS:
        if not _NUMBER.fullmatch(record[name]):
            raise RunFileInvalid(f'"{name}" of its "record" is not a whole number')
    if record["status"] not in FINAL:
        raise RunFileInvalid('the run has not ended: "status" of its "record" is not a final one')
    visits = document.get("visits", {})
    if not isinstance(visits, dict) or not all(isinstance(each, dict) for each in visits.values()):
        raise RunFileInvalid('its "visits" are not objects by their names')
    return WholeRun(
        run_id,
        record,
        _parts(PARTS, document),
        {visit: _parts(PARTS_OF_VISITS, each) for visit, each in visits.items()},
    )


_RECORD = PartForm("hash", "texts")


def _members(forms: Mapping[str, PartForm], parts: Mapping[str, Part]) -> list[str]:
    return [
        f'"{kind}":{_written(form, parts[kind])}' for kind, form in forms.items() if kind in parts
    ]


def _written(form: PartForm, part: Any) -> str:
    text = encode if form.holds == "texts" else str
    match form.shape:
        case "hash":
            return "{" + ",".join(f"{encode(key)}:{text(part[key])}" for key in sorted(part)) + "}"
        case "list":
            return f"[{','.join(map(text, part))}]"
        case "stream":
            return f"[{','.join(f'[{encode(key)},{value}]' for key, value in part)}]"


def _parts(forms: Mapping[str, PartForm], document: Mapping[str, Any]) -> dict[str, Part]:
    return {
        kind: _read(form, kind, document[kind]) for kind, form in forms.items() if kind in document
    }


def _read(form: PartForm, kind: str, value: Any) -> Part:
    if form.shape == "hash" and isinstance(value, dict):
        return dict(zip(value, _texts(form, kind, value.values()), strict=True))
    if form.shape == "list" and isinstance(value, list):
        return _texts(form, kind, value)
    if form.shape == "stream" and isinstance(value, list) and all(map(_is_entry, value)):
        return [(key, encode(event)) for key, event in value]
    raise RunFileInvalid(f'its "{kind}" is not a {form.shape}')


def _is_entry(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and _EVENT_ID.fullmatch(value[0]) is not None
        and isinstance(value[1], dict)
    )


def _texts(form: PartForm, kind: str, values: Iterable[Any]) -> list[str]:
    wanted = {"texts": str, "objects": dict, "json": object}[form.holds]
    values = list(values)
    if not all(isinstance(value, wanted) for value in values):
        raise RunFileInvalid(f'its "{kind}" has what is not {form.holds}')
    return values if form.holds == "texts" else [*map(encode, values)]


def schema() -> dict[str, Any]:
    """Return the JSON Schema of documents."""
    visit = {kind: _schema_of(form) for kind, form in PARTS_OF_VISITS.items()}
    properties = {
        "format": {"const": FORMAT},
        "version": {"type": "integer", "minimum": 1, "maximum": VERSION},
        "run_id": {"type": "string", "pattern": f"^{_RUN_ID.pattern}$"},
        "record": {**_schema_of(_RECORD), "required": [*_NEEDED]},
        **{kind: _schema_of(form) for kind, form in PARTS.items()},
        "visits": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": visit},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run of Sleipnir",
        "type": "object",
        "properties": properties,
        "required": ["format", "version", "run_id", "record"],
    }


def _schema_of(form: PartForm) -> dict[str, Any]:
    value: dict[str, Any] = {
        "texts": {"type": "string"},
        "objects": {"type": "object"},
        "json": {},
    }[form.holds]
    match form.shape:
        case "hash":
            return {"type": "object", "additionalProperties": value}
        case "list":
            return {"type": "array", "items": value}
        case "stream":
            entry = [{"type": "string", "pattern": f"^{_EVENT_ID.pattern}$"}, {"type": "object"}]
            return {
                "type": "array",
                "items": {"type": "array", "prefixItems": entry, "minItems": 2, "maxItems": 2},
            }
