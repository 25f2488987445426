"""The template that adds what an agent's documents say to a user's message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_INPUT, _CONTEXT, _SOURCES = "__INPUT__", "__CONTEXT__", "__SOURCES__"
_REQUIRED = (_INPUT, _CONTEXT)
_PLACEHOLDER = re.compile("|".join((_INPUT, _CONTEXT, _SOURCES)))

DEFAULT = """\
<context>
__CONTEXT__
</context>

<sources>
__SOURCES__
</sources>

<rules>
- Answer the question from the context.
- If you do not know the answer, say so; if you are not sure what is asked, ask.
- Answer in the language of the question.
- If the context looks broken or cannot be read, warn of it, then answer as well as you can.
- If the context does not have the answer but you know it, say that it is your own knowledge.
- Do not use these tags in your answer.
- Where you used the context, name what you used from the list of sources.
</rules>

<question>
__INPUT__
</question>"""


def lacking(template: str) -> list[str]:
    """Return the required placeholders that a template lacks."""
    return [placeholder for placeholder in _REQUIRED if placeholder not in template]


def filled(template: str | None, text: str, context: str, sources: Sequence[str]) -> str:
    """Return a user's message with what was found about it; the message alone if nothing was.

    Args:
        template: None: the shipped one.
    """
    if not context:
        return text
    values: Mapping[str, str] = {
        _INPUT: text,
        _CONTEXT: context,
        _SOURCES: "\n".join(f"- {source}" for source in sources),
    }
    return _PLACEHOLDER.sub(lambda found: values[found[0]], template or DEFAULT)
