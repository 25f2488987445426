"""The messages that the conversation of an llm node begins with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.graphs.skills import choice_of
from sleipnir.worker.agents.texts import skill_section
from sleipnir.worker.conversation.structured_output import schema_hint
from sleipnir.worker.llm.client import Message


def opening(
    graph: Graph,
    node: LlmNode,
    render: Callable[[str], str],
    attached: Sequence[Mapping[str, Any]] = (),
) -> list[Message]:
    """Return instructions, examples and prompt, each template rendered, in this order.

    Args:
        attached: documents of the files before the prompt's text.
    """
    instructions = render(node.instructions or "")
    examples = [
        {"role": role, "content": render(text)}
        for example in node.examples
        for role, text in (("user", example.user), ("assistant", example.assistant))
    ]
    prompt = render(node.prompt)
    instructions = "\n\n".join(filter(None, [instructions, skill_section(choice_of(node, graph))]))
    if node.output_schema is not None:
        hint = schema_hint(node.output_schema)
        if instructions:
            instructions += hint
        else:
            prompt += hint
    system = [{"role": "system", "content": instructions}] if instructions else []
    content = [*attached, {"type": "text", "text": prompt}] if attached else prompt
    return [*system, *examples, {"role": "user", "content": content}]
