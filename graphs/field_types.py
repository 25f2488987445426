"""Types of the language's fields, for pydantic; imported only when a file is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import core_schema

from sleipnir.graphs import schema
from sleipnir.graphs.document import params, queues
from sleipnir.graphs.mcp import filters

Seconds: TypeAlias = Annotated[float, Field(gt=0, le=schema.MAX_SECONDS)]
# 0: no limit.
Timeout: TypeAlias = Annotated[float, Field(ge=0, le=schema.MAX_SECONDS)]
PositiveInt: TypeAlias = Annotated[int, Field(ge=1)]
# The validator wants a reference in the text.
NumberOrTemplate: TypeAlias = PositiveInt | str
NotNegativeInt: TypeAlias = Annotated[int, Field(ge=0)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
# True: for the default time; else seconds.
Keeping: TypeAlias = bool | Seconds
# The validator explains why these are wrong; editors can already mark them.
Identifier: TypeAlias = Annotated[str, Field(json_schema_extra={"pattern": "^[A-Za-z0-9_]+$"})]
SomeText: TypeAlias = Annotated[str, Field(json_schema_extra={"minLength": 1})]
SomeTexts: TypeAlias = Annotated[list[str], Field(json_schema_extra={"minItems": 1})]

# Nodes that a run goes to; the validator refuses a list of none (E106).
SomeTargets: TypeAlias = str | SomeTexts
Cases: TypeAlias = Annotated[dict[str, SomeTargets], Field(json_schema_extra={"minProperties": 1})]

Scalar: TypeAlias = str | int | float | bool
# Of numbers, of dates, and of how long a text is.
Bound: TypeAlias = int | float | str

# Of workers that may execute a node.
QueueName: TypeAlias = Annotated[str, Field(pattern=f"^{queues.NAME}$")]

# Texts at which a reply ends.
Stop: TypeAlias = str | Annotated[list[str], Field(max_length=4)]
# What has its own place is refused by name; editors can already mark it.
Params: TypeAlias = Annotated[
    dict[str, Any],
    Field(json_schema_extra={"propertyNames": {"not": {"enum": sorted(params.WITH_OWN_PLACE)}}}),
]

# Patterns of tools' names: `*` stands for any characters, `?` for one.
ToolPatterns: TypeAlias = Annotated[
    list[Annotated[str, Field(max_length=filters.MAX_PATTERN_CHARS)]],
    Field(max_length=filters.MAX_PATTERNS),
]
ToolFilter: TypeAlias = dict[str, ToolPatterns]


class _Made:
    """A section within another one, which is built and checked before that one."""

    def __get_pydantic_core_schema__(self, source: Any, _: Any) -> core_schema.CoreSchema:
        return core_schema.is_instance_schema(schema.Section)

    def __get_pydantic_json_schema__(self, _schema: Any, _handler: Any) -> dict[str, Any]:
        return {}


def _next(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Pass routes and a switch, which are built and checked before their node."""
    is_routes = isinstance(value, list) and value and isinstance(value[0], schema.Route)
    return value if is_routes or isinstance(value, schema.Switch) else handler(value)


if TYPE_CHECKING:
    Next: TypeAlias = str | list[str] | list[schema.Route] | schema.Switch
else:
    Next = Annotated[str | list[str], WrapValidator(_next)]
Node: TypeAlias = Annotated[schema.Node, _Made()]
Example: TypeAlias = Annotated[schema.Example, _Made()]
Complaint: TypeAlias = Annotated[schema.Complaint, _Made()]
Variable: TypeAlias = Annotated[schema.Variable, _Made()]
FormField: TypeAlias = Annotated[schema.FormField, _Made()]
GraphSettings: TypeAlias = Annotated[schema.GraphSettings, _Made()]
