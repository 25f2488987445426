"""The generated parts of the documentation; `make docs` rewrites them, a test compares them.

A page says where one stands, and what is in between is replaced:

    <!-- generated: fields LlmNode -->
    <!-- end -->
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel, TypeAdapter

from sleipnir.graphs.codes import CODES
from sleipnir.graphs.json_schema import json_schema, section_schema
from sleipnir.graphs.models import PROVIDER_KEYS
from sleipnir.graphs.schema import BaseNode, Section, WritingNode
from sleipnir.scheduler.cli.app import GROUPS, VERBS, cli
from sleipnir.scheduler.cli.exit_codes import MEANINGS
from sleipnir.scheduler.cli.help.examples import EXAMPLES, lines_of
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.config.settings import FIELDS, PREFIX, Settings
from sleipnir.scheduler.runs import documents
from sleipnir.scheduler.testing.cases import CaseFields, Expected, OutputFields
from sleipnir.scheduler.testing.replies import ReplyFields, ToolCallFields
from sleipnir.scheduler.views.types import batches, questions, records, run
from sleipnir.worker.monitor.api.openapi import openapi_document
from sleipnir.worker.monitor.api.operations import OPERATIONS, Operation

HERE = Path(__file__).parent

_PART = re.compile(r"(<!-- generated: ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_WITHOUT_EFFECT = "Has no effect here."
_CASE_SECTIONS: Mapping[str, type[Section]] = {
    section.__name__: section
    for section in (CaseFields, Expected, OutputFields, ReplyFields, ToolCallFields)
}
# Of every node type; they have a table of their own.
_COMMON_FIELDS = ("type", *WritingNode.fields_in_files())


def renewed(page: str) -> str:
    """A page with its generated parts as they have to be.

    Raises:
        KeyError: it asks for a part that is not known.
    """

    def part(match: re.Match[str]) -> str:
        name, _, argument = match[2].partition(" ")
        lines = _PARTS[name](argument) if argument else _PARTS[name]()
        text = "\n".join(lines).strip("\n")
        return f"{match[1]}\n{text}\n\n{match[3]}"

    return _PART.sub(part, page)


def main() -> None:
    """Rewrite all pages."""
    for file in sorted(HERE.glob("*.md")):
        page = file.read_text(encoding="utf-8")
        if (new := renewed(page)) != page:
            file.write_text(new, encoding="utf-8")
            sys.stderr.write(f"renewed {file}\n")


# ---- the language


def _fields(section: str) -> Iterator[str]:
    """The fields of one mapping of graph.yaml."""
    schema = json_schema()
    fields = schema if section == "Graph" else schema["$defs"][section]
    is_node = section.endswith("Node")
    rows, without_effect = [], []
    for name, field in fields["properties"].items():
        if is_node and name in _COMMON_FIELDS:
            continue
        if field.get("description") == _WITHOUT_EFFECT:
            without_effect.append(f"`{name}`")
        else:
            rows.append(_field_row(name, field, required=name in fields.get("required", ())))
    yield from _table(("field", "value", "default", ""), rows)
    if without_effect:
        yield from ("", f"Accepted without effect (W011): {', '.join(without_effect)}.")


def _common_fields() -> Iterator[str]:
    """The fields of all node types; `map` has no `state_updates`."""
    properties = json_schema()["$defs"]["EndNode"]["properties"]
    rows = [["`type`", "one of the nine types", "required", "What the node does."]]
    for name in (*BaseNode.fields_in_files(), "state_updates"):
        if [f"`{name}`"] not in [row[:1] for row in rows]:
            rows.append(_field_row(name, properties[name], required=False))
    yield from _table(("field", "value", "default", ""), rows)


def _field_row(name: str, field: Mapping[str, Any], *, required: bool) -> list[str]:
    default = "required" if required else _default(field.get("default"))
    return [f"`{name}`", _type(field), default, field.get("description", "")]


def _default(value: object) -> str:
    if value is None or value in ({}, []):
        return "-"
    if isinstance(value, bool):
        return f"`{value}`".lower()
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"`{text}`" if text else '`""`'


_TYPES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "mapping",
}


def _type(field: Mapping[str, Any]) -> str:
    """A JSON Schema in a few words."""
    if "anyOf" in field:
        choices = (_type(choice) for choice in field["anyOf"] if choice.get("type") != "null")
        return " or ".join(dict.fromkeys(choices))
    kinds = field.get("type", "object" if "$ref" in field else "")
    kind = next((k for k in kinds if k != "null"), "") if isinstance(kinds, list) else kinds
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"] if isinstance(choice, str))
    if kind == "array":
        return f"list of {_plural(field['items'])}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"mapping to {_plural(field['additionalProperties'])}"
    return f"{_TYPES.get(kind, 'anything')}{_range(field)}"


def _plural(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return f"{field['$ref'].rpartition('/')[2].lower()}s"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(map(_plural, field["anyOf"])))
    if field.get("type") == "array":
        return f"lists of {_plural(field['items'])}"
    if "enum" in field:
        return "reducer names"
    return f"{_TYPES[field['type']]}s{_range(field)}" if "type" in field else "anything"


def _range(field: Mapping[str, Any]) -> str:
    if "exclusiveMinimum" in field:
        return f" > {field['exclusiveMinimum']:g}"
    return f" ≥ {field['minimum']:g}" if "minimum" in field else ""


def _codes(section: str) -> Iterator[str]:
    """The codes of findings, or of failed runs."""
    rows = ([name, code.cause, code.cure] for name, code in CODES[section].items())
    yield from _table(("code", "cause", "what to do"), rows)


# ---- tests of agents


def _case_fields(section: str) -> Iterator[str]:
    """The fields of one mapping in a file of cases."""
    schema = section_schema(_CASE_SECTIONS[section])
    rows = [
        _field_row(name, field, required=name in schema.get("required", ()))
        for name, field in schema["properties"].items()
    ]
    yield from _table(("field", "value", "default", ""), rows)


# ---- the command line


def _verbs() -> Iterator[str]:
    """Every verb with its parameters; the common flags are left out."""
    with click.Context(cli, info_name="sleipnir", **cli.context_settings) as context:
        common = _flags(cli.params, context)
        for name in VERBS:
            command = cli.get_command(context, name)
            assert command is not None, "it is one of the verbs"
            here = click.Context(command, context, name)
            yield from ("", f"### {name}", "")
            yield from _verb(command, here, common)
            for part, below in _parts(command, here):
                yield from ("", f"#### {name} {part.name}", "")
                yield from _verb(part, below, common)


def _parts(
    command: click.Command, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """The commands of a verb that has several."""
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        part = command.get_command(context, name)
        assert part is not None, "it is one of them"
        yield part, click.Context(part, context, name)


def _verb(
    command: click.Command, context: click.Context, common: Sequence[Sequence[str]]
) -> Iterator[str]:
    yield from ("```text", " ".join((context.command_path, *command.collect_usage_pieces(context))))
    yield from ("```", "", *_paragraphs(command.help or ""))
    if rows := [row for row in _flags(command.params, context) if row not in common]:
        yield from ("", *_table(("option", ""), rows))
    if command.name in EXAMPLES:
        yield from ("", "```text", *lines_of(command.name), "```")


def _verb_groups() -> Iterator[str]:
    """What to use for what."""
    rows = (
        [title.lower(), ", ".join(f"[{verb}](#{verb})" for verb in verbs)]
        for title, verbs in GROUPS.items()
    )
    yield from _table(("to", "use"), rows)


def _common_options() -> Iterator[str]:
    with click.Context(cli, info_name="sleipnir", **cli.context_settings) as context:
        yield from _table(("flag", ""), _flags(cli.get_params(context), context))


def _flags(params: Iterable[click.Parameter], context: click.Context) -> list[list[str]]:
    options = (p for p in params if isinstance(p, click.Option))
    records = filter(None, (option.get_help_record(context) for option in options))
    return [
        [f"`{names.replace('INTEGER RANGE', 'N')}`", text.replace("  [", " [")]
        for names, text in records
    ]


def _paragraphs(text: str) -> Iterator[str]:
    """Help text with each paragraph on one line, as Markdown likes it."""
    for number, paragraph in enumerate(cleandoc(text).split("\n\n")):
        yield from ("",) * bool(number)
        yield " ".join(paragraph.split())


def _exit_codes() -> Iterator[str]:
    yield from _table(("code", "means"), ([str(code), text] for code, text in MEANINGS.items()))


# ---- settings


def _settings() -> Iterator[str]:
    """Every setting; all of them can be given in the environment."""
    defaults = Settings()
    rows = [
        [
            f"`{name}`",
            f"`{PREFIX}{name.upper()}`",
            _setting_default(getattr(defaults, name)),
            field.metadata["description"],
        ]
        for name, field in FIELDS.items()
    ]
    yield from _table(("setting", "environment", "default", ""), rows)


def _setting_default(value: object) -> str:
    # A section's own defaults are the matter of its page.
    empty = value in (None, ()) or isinstance(value, ModelSettings)
    value = ",".join(value) if isinstance(value, tuple) else value
    return "-" if empty else f"`{str(value).removesuffix('.0').lower()}`"


def _model_keys() -> Iterator[str]:
    """Which variables hold the keys of models' providers."""
    rows = [
        [f"`{provider}`", " or ".join(f"`{name}`" for name in names)]
        for provider, names in PROVIDER_KEYS.items()
    ]
    yield from _table(("provider", "its key"), rows)


# ---- the monitor's API


def _operations() -> Iterator[str]:
    """Every operation of the API, with what it takes and gives."""
    for operation in OPERATIONS:
        yield from ("", f"### {operation.method} {operation.path}", "", operation.about)
        if operation.query:
            rows = [[f"`{name}`", about] for name, about in operation.query.items()]
            yield from ("", *_table(("parameter", ""), rows))
        if operation.takes is not None:
            yield from ("", *_table(("body", "type", ""), _members(operation.takes)))
        yield from ("", f"Gives {_given(operation)}.")


def _given(operation: Operation) -> str:
    status = " or ".join(map(str, operation.statuses))
    if isinstance(operation.gives, str):
        return f"{status}: `{operation.gives}`"
    return f"{status}: [{operation.gives.__name__}](#{operation.gives.__name__.lower()})"


def _records() -> Iterator[str]:
    """The models of the API's answers, by name."""
    schemas = openapi_document()["components"]["schemas"]
    bodies = {each.takes.__name__ for each in OPERATIONS if each.takes is not None}
    for name in sorted(schemas.keys() - bodies):
        rows = list(_schema_members(schemas[name]))
        yield from ("", f"### {name}", "", *_table(("field", "type", ""), rows))


def _document(names: str) -> Iterator[str]:
    """The fields of a document that `--json` prints, or what it has besides another one's."""
    name, _, other = names.partition(" ")
    known = _document_schema(other)["properties"] if other else ()
    members = (row for row in _schema_members(_document_schema(name)) if row[0][1:-1] not in known)
    yield from _table(("field", "type", ""), members)


def _document_schema(name: str) -> Mapping[str, Any]:
    modules = (records, run, batches, questions, documents)
    kind = next(vars(module)[name] for module in modules if name in vars(module))
    return TypeAdapter(kind).json_schema(ref_template="{model}")


def _members(model: type[BaseModel]) -> Iterator[Sequence[str]]:
    return _schema_members(openapi_document()["components"]["schemas"][model.__name__])


def _schema_members(schema: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for name, member in schema["properties"].items():
        yield f"`{name}`", _json_type(member), member.get("description", "")


def _json_type(schema: Mapping[str, Any]) -> str:
    """A JSON Schema of the API in a few words, with links to its records."""
    if "$ref" in schema:
        place, _, name = schema["$ref"].rpartition("/")
        if not place:  # of a document that `--json` prints, maybe not of the API
            known = openapi_document()["components"]["schemas"]
            return f"[{name}](api.md#{name.lower()})" if name in known else f"`{name}`"
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_json_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of {_json_type(schema['items'])}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"object of {_json_type(schema['additionalProperties'])}"
        case None:
            return "anything"
        case kind:
            return {"string": "text"}.get(kind, str(kind))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_cell(text) for text in row)} |"


def _cell(text: str) -> str:
    """Text as it may stand in a table; what is not code could be taken for HTML."""
    prose = text.split("`")
    prose[::2] = [part.replace("<", "&lt;") for part in prose[::2]]
    return "`".join(prose).replace("|", r"\|")


_PARTS: Mapping[str, Callable[..., Iterator[str]]] = {
    "fields": _fields,
    "common-fields": _common_fields,
    "codes": _codes,
    "case-fields": _case_fields,
    "verbs": _verbs,
    "verb-groups": _verb_groups,
    "common-options": _common_options,
    "exit-codes": _exit_codes,
    "settings": _settings,
    "model-keys": _model_keys,
    "document": _document,
    "operations": _operations,
    "records": _records,
}


if __name__ == "__main__":
    main()
