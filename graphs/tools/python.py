"""Reads the functions of a Python tool file from its syntax tree."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Any, TypeAlias

from sleipnir.graphs.tools.docstring import Docstring, read_docstring
from sleipnir.graphs.tools.function import BashDetails, Function
from sleipnir.graphs.tools.needs import read_needs
from sleipnir.graphs.tools.source import INSTRUCTIONS, Parameter, Source

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
# A schema, and whether the value may be None.
Typed: TypeAlias = tuple[dict[str, Any], bool]

_NOT_IN_NAMES = re.compile(r"[^a-z0-9_]+")
_SCALARS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_SEQUENCES = {"list", "List", "set", "Set"}
_TUPLES = {"tuple", "Tuple"}
_MAPPINGS = {"dict", "Dict", "Mapping"}


def python_functions(source: Source) -> list[Function]:
    """Return `run` of a global tool, or every public function of an agent's own file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # style is not reported here
            module = ast.parse(source.text)
    except SyntaxError as error:
        source.report("E603", f"syntax error: {error.msg}", error.lineno or 1)
        return []
    except ValueError as error:  # raised for a NUL by some versions of Python
        source.report("E603", f"syntax error: {error}", 1)
        return []
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    # A later definition replaces an earlier one of the same name, as in Python.
    found = {node.name: node for node in module.body if isinstance(node, kinds)}
    needs = read_needs(source, "#")
    if source.own:
        return [
            _function(source, node, _function_name(name), needs)
            for name, node in found.items()
            if not name.startswith("_") or name == INSTRUCTIONS
        ]
    if source.path.stem.startswith("_"):
        return []
    if "run" not in found:
        source.report("E603", "a global tool needs a function 'run'", 1)
        return []
    return [_function(source, found["run"], _function_name(source.path.stem), needs)]


def _function_name(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name.lower())


def _function(source: Source, node: Definition, name: str, needs: BashDetails) -> Function:
    docstring = read_docstring(ast.get_docstring(node) or "")
    parameters = list(_parameters(source, node, docstring))
    description = docstring.description
    return source.function(name, node.name, node.lineno, description, parameters, needs)


def _parameters(source: Source, node: Definition, docstring: Docstring) -> Iterator[Parameter]:
    arguments = node.args
    for argument, kind, stars in (
        *((argument, "positional-only parameter", "") for argument in arguments.posonlyargs),
        (arguments.vararg, "parameter", "*"),
        (arguments.kwarg, "parameter", "**"),
    ):
        if argument is not None:
            shown = f"{kind} '{stars}{argument.arg}'"
            message = f"function '{node.name}': {shown} is not supported"
            source.report("E605", message, argument.lineno)
    # Defaults belong to the last positional parameters.
    first_default = len(arguments.args) - len(arguments.defaults)
    for index, argument in enumerate(arguments.args):
        yield _parameter(argument, index >= first_default, docstring)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default is not None, docstring)


def _parameter(argument: ast.arg, has_default: bool, docstring: Docstring) -> Parameter:
    described = docstring.arguments.get(argument.arg)
    annotation = argument.annotation
    if annotation is None and described is not None:
        annotation = _expression(described.type)
    schema, nullable = _typed(annotation)
    optional = described is not None and described.optional
    required = not (has_default or nullable or optional)
    return Parameter(argument.arg, schema, required, described.text if described else "")


def _typed(annotation: ast.expr | None) -> Typed:
    match annotation:
        case ast.Constant(value=str(quoted)):
            return _typed(_expression(quoted))
        case ast.BinOp(op=ast.BitOr()):
            return _union(_alternatives(annotation))
        case ast.Subscript(value=generic, slice=ast.Tuple(elts=members)):
            return _generic(_last_name(generic), members)
        case ast.Subscript(value=generic, slice=member):
            return _generic(_last_name(generic), [member])
        case _:
            return _plain(_last_name(annotation)), False


def _plain(name: str) -> dict[str, Any]:
    if name in _SEQUENCES | _TUPLES:
        return {"type": "array", "items": {"type": "string"}}
    return {"type": "object" if name in _MAPPINGS else _SCALARS.get(name, "string")}


def _generic(name: str, members: list[ast.expr]) -> Typed:
    if name == "Literal":
        return _literal(members)
    if name == "Optional":
        return _typed(members[0])[0], True
    if name == "Union":
        return _union(members)
    # A tuple of fixed length has items of several types, but JSON Schema's `items` is one type.
    uniform = name in _SEQUENCES or (name in _TUPLES and _is_ellipsis(members[-1]))
    if uniform:
        return {"type": "array", "items": _typed(members[0])[0]}, False
    return _plain(name), False


def _union(members: list[ast.expr]) -> Typed:
    """Use the first member that is not None."""
    values = [member for member in members if not _is_none(member)]
    schema, nullable = _typed(values[0] if values else None)
    return schema, nullable or len(values) < len(members)


def _alternatives(expression: ast.expr) -> list[ast.expr]:
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.BitOr):
        return [*_alternatives(expression.left), *_alternatives(expression.right)]
    return [expression]


def _literal(members: list[ast.expr]) -> Typed:
    values: list[Any] = []
    for member in members:
        try:
            values.append(ast.literal_eval(member))
        except ValueError:  # a name, whose value is unknown without running the file
            return {"type": "string"}, False
    given = [value for value in values if value is not None]
    nullable = len(given) < len(values)
    if given and all(type(value) is int for value in given):
        return {"type": "integer", "enum": given}, nullable
    return {"type": "string", "enum": [str(value) for value in given]}, nullable


def _last_name(expression: ast.expr | None) -> str:
    """Return the last part of a dotted name: `List` for `typing.List`."""
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _is_none(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Constant) and expression.value is None


def _is_ellipsis(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Constant) and expression.value is ...


def _expression(text: str) -> ast.expr | None:
    """Parse a type written as text; None if it is not an expression."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
