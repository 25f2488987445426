"""Rules about `x-form`: W040, W041."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.document.document import KeyPath
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.reading import FORM
from sleipnir.graphs.document.shape import near
from sleipnir.graphs.forms import mistake_in, problem_of
from sleipnir.graphs.schema import FormField, InputNode
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.graphs.validator.context import Context


def forms_ask_for_what_there_is(context: Context) -> Iterator[Finding]:
    """W040: no field is made of a form that belongs to no key and no variable."""
    graph = context.graph
    known = {PROMPT_KEY, *graph.initial_state, *(each.name for each in graph.variables)}
    for name in graph.form.keys() - known:
        message = f"x-form: '{name}' is neither a key of initial_state nor a variable"
        yield context.finding("W040", message, FORM, name, hint=near(name, known))


def forms_can_be_filled_in(context: Context) -> Iterator[Finding]:
    """W041: some value fits each form, the default is among them."""
    for name, form, path in _forms(context):
        if mistake := mistake_in(form):
            yield context.finding("W041", f"x-form of {name}: {mistake}", *path)
    for key, form in context.graph.form.items():
        default = context.graph.initial_state.get(key)
        if default in (None, "", []) or mistake_in(form):
            continue  # to be filled in
        if problem := problem_of(form, default):
            message = f"initial_state.{key} does not fit its x-form: {problem}"
            yield context.finding("W041", message, "initial_state", key)


def _forms(context: Context) -> Iterator[tuple[str, FormField, KeyPath]]:
    for key, form in context.graph.form.items():
        yield f"'{key}'", form, (FORM, key)
    for node_id, node in context.graph.nodes_of(InputNode):
        if node.form is not None:
            yield f"node '{node_id}'", node.form, ("nodes", node_id, FORM)
