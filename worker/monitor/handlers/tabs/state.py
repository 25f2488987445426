"""What the tab *State* of a run's page shows: each key's value and what wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.client.rerun.words import WordDiff, word_diff
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views.run import MOST_VALUES, StateBounds
from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.handlers.run_parts import RunHandler
from sleipnir.worker.monitor.pages.trees import leaf_html, preview, tree_html

# Texts are compared word by word from this length on, and shown up to that one, characters.
_SHORT: Final = 80
_MOST_COMPARED: Final = 65_536
_ON_PAGE: Final = StateBounds(MOST_VALUES, each_bytes=65_536, all_bytes=262_144)
_PART: Final = 32_768  # characters of a value that is shown on its own
_BEGINNING: Final = 2_000  # of a text among others


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A key of the state."""

    key: Mapping[str, Any]  # of `state_document`
    line: str  # the beginning of the value
    leaf: str | None  # HTML of a value that needs no room of its own
    tree: str | None  # HTML of an object or a list
    text: str | None  # the beginning of a long text
    changes: WordDiff | None


@dataclass(frozen=True, slots=True)
class ValuePart:
    """A part of a large value."""

    text: str
    number: int  # from 1
    parts: int


async def state_tab(page: RunHandler, of: Run) -> dict[str, Any]:
    """Return what the template of the tab needs."""
    of_graph = await page.stored_graph(of)
    reducers = {} if of_graph is None else of_graph.reducers
    only = page.text_argument("key") is not None
    state = await page.state(of, None if only else _ON_PAGE)
    tab: dict[str, Any] = {"state": state, "reducers": reducers, "shown": None}
    if only:
        (key,) = state["keys"]
        number = page.index_argument("part") or 1
        return {**tab, "only": key, "shown": _part(key["value"], number)}
    empty = [key["key"] for key in state["keys"] if _is_empty(key)]
    values = await page.site.call(_shown, [key for key in state["keys"] if not _is_empty(key)])
    return {**tab, "empty": empty, "values": values}


def _is_empty(key: Mapping[str, Any]) -> bool:
    """Return whether a value says nothing, and always did."""
    return key["value"] in ("", None, [], {}) and not key["changed"] and not key["left_out"]


def _shown(keys: Sequence[Mapping[str, Any]]) -> list[ShownValue]:
    return [_shown_value(key) for key in keys]


def _shown_value(key: Mapping[str, Any]) -> ShownValue:
    value, was = key["value"], key["before"]
    line = preview(value)
    changes = _changes(was, value) if key["changed"] and not key["is_new"] else None
    if key["left_out"]:
        return ShownValue(key, "", None, None, None, None)
    if isinstance(value, dict | list) and value:
        return ShownValue(key, line, None, tree_html(value), None, None)
    if isinstance(value, str) and (len(value) > _SHORT or "\n" in value):
        return ShownValue(key, line, None, None, value[:_BEGINNING], changes)
    return ShownValue(key, line, leaf_html(value), None, None, None)


def _changes(before: Any, after: Any) -> WordDiff | None:
    """Return how a long text has changed, word by word; None if both are better shown whole."""
    if not isinstance(before, str) or not isinstance(after, str) or not before:
        return None
    if not _SHORT <= max(len(before), len(after)) <= _MOST_COMPARED:
        return None
    return word_diff(before, after)


def _part(value: Any, number: int) -> ValuePart:
    text = formats.pretty(value)
    parts = max(1, -(-len(text) // _PART))
    number = min(max(1, number), parts)
    return ValuePart(text[(number - 1) * _PART : number * _PART], number, parts)
