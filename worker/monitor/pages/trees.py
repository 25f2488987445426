"""JSON values as HTML: trees that fold, bounded in what they show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado.escape import xhtml_escape

from sleipnir.worker.monitor.formats import isolated, visible

_MOST_NODES: Final = 300  # of a tree
_MOST_OF_LEAF: Final = 500  # characters
_OPEN: Final = 2  # levels that are open
_DEEPEST: Final = 20
_LINE: Final = 100


def tree_html(value: Mapping[str, Any] | list[Any]) -> str:
    """Return an object or a list as a tree; members that there is no room for are counted."""
    return "".join(_Tree().members(value, depth=1))


def leaf_html(value: Any) -> str:
    """Return a value that has no members, or those of an empty one."""
    if isinstance(value, str):
        text = visible(value if len(value) <= _MOST_OF_LEAF else f"{value[:_MOST_OF_LEAF]}…")
        return f'<span class="v-text">{isolated(text) if text else "&quot;&quot;"}</span>'
    kind = "number" if isinstance(value, int | float) and not isinstance(value, bool) else "word"
    return f'<span class="v-{kind}">{xhtml_escape(json.dumps(value))}</span>'


def preview(value: Any) -> str:
    """Return the beginning of a value, on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(text[: 2 * _LINE].split())
    return line if len(line) <= _LINE and len(text) <= 2 * _LINE else f"{line[: _LINE - 1]}…"


class _Tree:
    def __init__(self) -> None:
        self._room = _MOST_NODES

    def members(self, value: Mapping[str, Any] | list[Any], depth: int) -> Iterator[str]:
        """Yield the parts of a list of members."""
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        yield '<ul class="tree">'
        for at, (name, member) in enumerate(pairs):
            if self._room <= 0:
                yield f'<li class="more">… {len(value) - at:,} more</li>'
                break
            self._room -= 1
            yield from self._member(str(name), member, depth)
        yield "</ul>"

    def _member(self, name: str, value: Any, depth: int) -> Iterator[str]:
        key = f'<span class="v-key">{isolated(name)}</span>'
        if not isinstance(value, Mapping | list) or not value:
            yield f"<li>{key} {leaf_html(value)}</li>"
        elif depth >= _DEEPEST:
            yield f'<li>{key} <span class="v-text">{isolated(preview(value))}</span></li>'
        else:
            size = f"{{{len(value):,}}}" if isinstance(value, Mapping) else f"[{len(value):,}]"
            is_open = " open" if depth < _OPEN else ""
            yield f'<li><details{is_open}><summary>{key} <span class="v-size">{size}</span> '
            yield f'<span class="v-begin">{isolated(preview(value))}</span></summary>'
            yield from self.members(value, depth + 1)
            yield "</details></li>"
