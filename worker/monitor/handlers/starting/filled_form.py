"""The form that starts a run of an agent: its fields, and what somebody has entered into them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING, Any

from sleipnir.records import dataclass
from sleipnir.scheduler.views.submission import WantedRun
from sleipnir.worker.monitor.pages.form_fields import (
    FILE,
    PROMPT,
    STATE,
    VARIABLE,
    InputField,
    entered,
    prompt_field,
    state_fields,
    variable_fields,
    wrong,
)
from sleipnir.worker.monitor.problems import Problem, Refused, bad_request

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from sleipnir.scheduler.views.types.agents import AgentDocument

_FIELDS = (PROMPT, STATE, VARIABLE)


@dataclass(frozen=True, slots=True)
class FilledForm:
    """What a user has entered into the form, and the outcome."""

    prompt: str = ""
    state: str = ""  # keys without a field, as JSON
    values: Mapping[str, Any] = field(default_factory=dict)  # of keys of the state, before
    variables: Mapping[str, str] = field(default_factory=dict)  # before
    texts: Mapping[str, str] = field(default_factory=dict)  # by name of the field
    workdir: str = ""
    key: str = ""
    problem: str | None = None
    command: str | None = None

    @property
    def is_begun(self) -> bool:
        """Whether anything is filled in."""
        return bool(self.problem or self.command or self.prompt or self.texts or self.values)


@dataclass(frozen=True, slots=True)
class FormFields:
    """The fields of the form, as somebody has filled them in, and what they say."""

    prompt: InputField
    variables: Sequence[InputField]
    state: Sequence[InputField]
    wanted_variables: Mapping[str, str]
    wanted_state: Mapping[str, Any]

    @classmethod
    def of(cls, document: AgentDocument, filled: FilledForm) -> FormFields:
        """Return the fields of an agent."""
        form, texts = document["form"], filled.texts
        _, (prompt,) = entered([prompt_field(form, filled.prompt)], texts)
        declared = variable_fields(document["variables"], form, filled.variables)
        _, variables = entered(declared, texts)
        state, keys = entered(state_fields(document["initial_state"], form, filled.values), texts)
        # An empty field counts as not filled in.
        given = {each.key: each.value for each in variables if each.value}
        return cls(prompt, variables, keys, given, state)

    def without_secrets(self) -> FormFields:
        """Return what a page may contain: secrets have to be entered again."""
        shown = [
            InputField(each.name, each.key, each.kind, "", "", each.form, each.description)
            if each.kind == "secret"
            else each
            for each in self.variables
        ]
        return FormFields(self.prompt, shown, self.state, {}, self.wanted_state)


def filled_form(request: HTTPServerRequest) -> FilledForm:
    """Return what a browser has sent.

    Raises:
        Refused: a file or a field is not text.
    """

    sent = chain(request.body_arguments, (each.removeprefix(FILE) for each in request.files))
    names = dict.fromkeys(each for each in sent if each.startswith(_FIELDS))
    return FilledForm(
        state=sent_text(request, "state"),
        texts={name: sent_text(request, name) for name in names},
        workdir=sent_text(request, "workdir").strip(),
        key=sent_text(request, "key"),
    )


def sent_text(request: HTTPServerRequest, name: str) -> str:
    """Return the text of a field, or of the file that replaces it.

    Raises:
        Refused: it is not text.
    """
    files = [each for each in request.files.get(FILE + name, ()) if each["filename"]]
    if files:
        return _decoded(files[0]["body"], f"the file '{files[0]['filename']}'")
    values = request.body_arguments.get(name, [b""])
    # Browsers send line ends as CR LF.
    return _decoded(values[-1], f"'{name}'").replace("\r\n", "\n")


def _decoded(body: bytes, what: str) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise bad_request(f"{what} is not UTF-8 text") from error


def wanted_run(name: str, fields: FormFields, filled: FilledForm) -> WantedRun:
    """Return the run that a filled form asks for.

    Raises:
        Refused: a field is wrong.
    """
    all_fields = [fields.prompt, *fields.variables, *fields.state]
    if labels := list(wrong(all_fields)):
        raise Refused(Problem(422, "invalid", f"correct the value of: {', '.join(labels)}"))
    try:
        others = json.loads(filled.state) if filled.state.strip() else {}
    except ValueError as error:
        raise bad_request(f"the state is not valid JSON: {error}") from error
    if not isinstance(others, dict):
        raise bad_request("the state must be a JSON object: keys and their values")
    return WantedRun(
        agent=name,
        prompt=fields.prompt.value,
        state={**fields.wanted_state, **others},
        variables=fields.wanted_variables,
        workdir=filled.workdir or None,
        key=filled.key or None,
    )
