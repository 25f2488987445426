"""Fields of forms: of an agent's prompt, its variables and the keys of its initial state.

Each is of the type of the value that is there, unless an `x-form` says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from sleipnir.graphs.forms import problem_of
from sleipnir.graphs.schema import FormField
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.records import dataclass

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.agents import AgentVariableDocument
    from sleipnir.scheduler.views.types.records import FormFieldDocument

Kind = Literal[
    "text", "long", "file", "number", "date", "switch", "select", "secret", "texts", "json"
]

PROMPT: Final = "prompt"
ANSWER: Final = "answer"
STATE: Final = "state-"
VARIABLE: Final = "var-"
# Before a field's name: the file that replaces its text.
FILE: Final = "file-"
# Longer texts, or those of several lines, get a field with room for them.
_LONG: Final = 80
_MOST_ROWS: Final = 8
_FORMATS: Final[Mapping[str, Kind]] = {
    "textarea": "long",
    "file": "file",
    "date": "date",
    "number": "number",
}
# Kinds whose values are texts, as they are entered.
_TEXTS: Final = frozenset({"text", "long", "file", "date", "secret"})
_PLAIN: Final = FormField()


@dataclass(frozen=True, slots=True)
class InputField:
    """A field, with what is entered in it."""

    name: str  # in the form
    key: str  # of the state, or name of the variable
    kind: Kind
    value: str  # as it is shown
    default: Any
    form: FormField = _PLAIN
    description: str = ""
    is_required: bool = False
    problem: str | None = None

    @property
    def label(self) -> str:
        return self.form.title or self.key

    @property
    def is_changed(self) -> bool:
        """Whether something else than the default is entered."""
        return self.value != shown(self.default, self.kind)

    @property
    def options(self) -> list[str]:
        """The values to choose from, as they are shown."""
        return [_option(each) for each in self.form.enum or ()]

    @property
    def rows(self) -> int:
        """The height of a field for several lines."""
        return min(
            _MOST_ROWS, max(4 if self.name in (PROMPT, ANSWER) else 2, self.value.count("\n") + 2)
        )

    @property
    def attributes(self) -> dict[str, str | bool]:
        """The attributes of its element that do not depend on its kind."""
        found: dict[str, str | bool] = {"id": f"{self.name}-field", "name": self.name}
        if self.kind not in ("texts", "json", "select", "switch"):
            is_length = self.kind not in ("number", "date")
            least, most = ("minlength", "maxlength") if is_length else ("min", "max")
            given = {least: self.form.min, most: self.form.max}
            found |= {name: str(bound) for name, bound in given.items() if bound is not None}
            # Browsers take an empty field as long enough.
            if self.is_required or (is_length and self.form.min):
                found["required"] = True
        if self.problem:
            found |= {"aria-invalid": "true", "aria-describedby": f"{self.name}-problem"}
        return found

    def entered(self, text: str) -> tuple[Any, InputField]:
        """Return the value that a text stands for, and the field with it.

        What is wrong with it is the field's `problem`; then there is no value.
        """
        problem, value = None, None
        try:
            value = _parsed(text, self)
        except UnreadableText as error:
            problem = str(error)
        else:
            is_left_out = value is None or (value == "" and self.kind == "number")
            problem = None if is_left_out else problem_of(self.form, value)
        if self.is_required and not text:
            problem = "this is required"
        return (None if problem else value), replace(self, value=text, problem=problem)


class UnreadableText(ValueError):
    """What is entered does not have the type of the field."""


def prompt_field(form: Mapping[str, FormFieldDocument], given: str) -> InputField:
    """Return the field of the prompt."""
    asked = FormField(**form[PROMPT_KEY]) if PROMPT_KEY in form else FormField(title="Prompt")
    kind = _asked_kind(asked, "long")
    return InputField(PROMPT, "Prompt", "long" if kind == "text" else kind, given, "", asked)


def answer_field(form: FormFieldDocument | None, given: str) -> InputField | None:
    """Return the field of an answer; None if its question has no form."""
    if form is None:
        return None
    asked = FormField(**form)
    return InputField(ANSWER, "Your answer", _asked_kind(asked, "text"), given, "", asked)


def variable_fields(
    variables: Sequence[AgentVariableDocument],
    form: Mapping[str, FormFieldDocument],
    given: Mapping[str, str],
) -> list[InputField]:
    """Return a field for each variable; those of secrets are empty.

    Args:
        given: values to enter in place of the defaults.
    """
    return [
        InputField(
            VARIABLE + each["name"],
            each["name"],
            "secret" if each["secret"] else _asked_kind(asked, "text"),
            given.get(each["name"], each["default"] or ""),
            each["default"] or "",
            asked,
            each["description"],
            each["required"],
        )
        for each in variables
        for asked in (FormField(**form[each["name"]]) if each["name"] in form else _PLAIN,)
    ]


def state_fields(
    initial_state: Mapping[str, Any],
    form: Mapping[str, FormFieldDocument],
    given: Mapping[str, Any],
) -> list[InputField]:
    """Return a field for each key that is seeded, but the prompt.

    Args:
        given: values to enter in place of the defaults.
    """
    found = []
    for key, default in initial_state.items():
        if key == PROMPT_KEY:
            continue
        asked = FormField(**form[key]) if key in form else _PLAIN
        kind = _kind(default, asked)
        value = shown(given.get(key, default), kind)
        found.append(InputField(STATE + key, key, kind, value, default, asked))
    return found


def entered(
    fields: Sequence[InputField], texts: Mapping[str, str]
) -> tuple[dict[str, Any], list[InputField]]:
    """Return the values that differ from the defaults, and the fields with what was entered.

    Fields whose text cannot be read say why, and give no value.

    Args:
        texts: by name of the field; those without one keep their default.
    """
    values: dict[str, Any] = {}
    filled: list[InputField] = []
    for each in fields:
        if each.name not in texts:
            filled.append(each)
            continue
        value, field = each.entered(texts[each.name])
        filled.append(field)
        if field.problem is None and value != each.default:
            values[each.key] = value
    return values, filled


def wrong(fields: Sequence[InputField]) -> Iterator[str]:
    """Yield the labels of fields whose text is wrong."""
    return (each.label for each in fields if each.problem)


def _kind(value: Any, form: FormField) -> Kind:
    if isinstance(value, bool):
        return "switch"
    if isinstance(value, int | float):
        return "select" if form.enum else "number"
    if isinstance(value, str):
        return _asked_kind(form, "long" if len(value) > _LONG or "\n" in value else "text")
    if value is None and form != _PLAIN:
        return _asked_kind(form, "text" if form.min is None and form.max is None else "number")
    if isinstance(value, list) and all(map(_is_line, value)) and (value or form != _PLAIN):
        return "texts"
    return "json"


def _asked_kind(form: FormField, other: Kind) -> Kind:
    if form.enum:
        return "select"
    return other if form.format is None else _FORMATS[form.format]


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def _option(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def shown(value: Any, kind: Kind) -> str:
    """Return a value as a field shows it."""
    if value is None and kind != "json":
        return ""
    if kind in _TEXTS or kind == "select":
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if kind == "texts" and isinstance(value, list):
        return "\n".join(map(str, value))
    is_large = isinstance(value, list | dict) and len(json.dumps(value)) > _LONG
    return json.dumps(value, ensure_ascii=False, indent=2 if is_large else None)


def _parsed(text: str, field: InputField) -> Any:
    """Return the value of a text; None for one without, where that is the default.

    Raises:
        UnreadableText: it has none of that kind.
    """
    if field.kind in _TEXTS and (text or field.default is not None):
        return text
    if not text and field.default in (None, ""):
        return field.default
    if field.kind == "select":
        return next((each for each in field.form.enum or () if _option(each) == text), text)
    if field.kind == "texts":
        return [line for line in text.splitlines() if line.strip()]
    try:
        value = json.loads(text)
    except ValueError as error:
        what = "a number" if field.kind == "number" else f"JSON: {error}"
        raise UnreadableText(f"this is not {what}") from error
    if field.kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise UnreadableText("this is not a number")
    return value
