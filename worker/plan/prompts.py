"""How many tokens the prompts of a node have, as far as a line's values tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sleipnir.graphs.schema import EndNode, Graph, LlmNode, ScriptNode
from sleipnir.graphs.template import MISSING, references, render_lenient, resolve
from sleipnir.graphs.validator.scripts import script_text
from sleipnir.records import dataclass
from sleipnir.worker.conversation.opening import opening
from sleipnir.worker.llm.client import Message
from sleipnir.worker.plan.files import PlannedFiles, attached_places

# With most tokenizers, in English text.
_CHARACTERS_PER_TOKEN = 4
_KEY = re.compile(r"""["'](\w+)["']\s*:""")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens of the part of a prompt that is known, and whether that is all of it."""

    tokens: int
    is_known: bool
    key: int = 0  # equal for equal texts


def tokens_of(messages: Iterable[Message]) -> int:
    """Return the tokens of messages by their characters, without what a provider adds."""
    return text_tokens("".join(str(message["content"]) for message in messages))


def text_tokens(text: str) -> int:
    """Return the tokens of a text by its characters."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


class Prompts:
    """The prompts of an agent's llm nodes."""

    def __init__(self, graph: Graph, directory: Path, files: PlannedFiles) -> None:
        self._graph = graph
        self._directory = directory
        self._files = files
        self._written = frozenset(_written_keys(graph, directory))
        self._fixed: dict[str, Prompt] = {}

    def known(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return those values of a run's first state that its nodes leave as they are."""
        return {key: value for key, value in state.items() if key not in self._written}

    def prompt(self, node_id: str, node: LlmNode, known: Mapping[str, Any]) -> Prompt:
        """Return what is known of the prompt of one visit."""
        if node_id in self._fixed:
            return self._fixed[node_id]
        roots = [each for text in _templates(node) for each in references(text)]
        messages = opening(self._graph, node, lambda text: render_lenient(text, known))
        is_known = all(
            each.path is not None and resolve(each.path, (known,)) is not MISSING for each in roots
        )
        key = hash(tuple(str(message["content"]) for message in messages))
        places = attached_places(node, known)
        tokens = tokens_of(messages) + self._files.tokens(places, self._directory)
        prompt = Prompt(tokens, is_known, hash((key, *places)))
        if not roots:
            self._fixed[node_id] = prompt
        return prompt


def _templates(node: LlmNode) -> Iterator[str]:
    yield from filter(None, (node.instructions, node.prompt, *node.attach))
    for example in node.examples:
        yield from (example.user, example.assistant)


def _written_keys(graph: Graph, directory: Path) -> Iterator[str]:
    """Yield the keys that nodes may write before another node reads them."""
    for node in graph.nodes.values():
        if not isinstance(node, EndNode):
            yield from node.written_keys()
    for path in {node.script for _, node in graph.nodes_of(ScriptNode)}:
        yield from _KEY.findall(script_text(directory, path))
