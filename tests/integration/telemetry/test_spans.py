"""What a collector gets of runs: each span once, with a parent that exists."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from sleipnir.worker.monitor.access import Access
from tests.support.collector import Collector, Received
from tests.support.engine import Engine
from tests.support.knowledge import embedding
from tests.support.model_server import ModelServer, calls, says
from tests.support.site import ServedSite
from tests.support.users import basic

PARENT = f"00-{32 * 'a'}-{16 * 'b'}-01"
GOLDEN = Path(__file__).with_name("spans.txt")

_VARYING = ("sleipnir.wait_s", "sleipnir.parked_s", "server.port")
_TOUR = """
start: split
initial_state: {items: [1, 2]}
variables: [{name: token, description: a secret, secret: true}]
nodes:
  split: {type: set, values: {ready: true}, next: [each, helper, flaky]}
  each: {type: map, over: "{{items}}", as: item, branch: double, collect_into: all, next: ask}
  double: {type: script, script: double.sh, state_updates: {output: "{{twice}}"}}
  helper: {type: agent, agent: helper, prompt: Help, next: ask}
  flaky: {type: script, script: flaky.sh, max_attempts: 2, state_updates: {}, next: ask}
  ask: {type: input, question: Which colour?, next: think}
  think:
    type: llm
    model: "openai:gpt-4o"
    prompt: Think
    tools: [look]
    state_updates: {said: "{{output}}"}
    next: broken
  broken: {type: script, script: broken.sh, fallback: read}
  read:
    type: rag
    documents: [docs]
    embedding_model: openai:text-embedding-3-small
    chunk_size: 200
    chunk_overlap: 0
    top_k: 1
    query: "{{said}}"
    state_updates: {found: "{{output.sources}}"}
    next: done
  done: {type: end, output: "{{said}}"}
"""
_LOOK = '''
from typing import Annotated


def look(what: Annotated[str, "what to look up"]) -> str:
    """Look something up."""
    import os
    return f"found {what} with {os.environ['LLM_AGENT_VAR_TOKEN']}"
'''
_FILES = {
    "double.sh": "echo '{\"twice\": 2}'",
    "flaky.sh": "test -e tried || { touch tried; echo not yet >&2; exit 3; }; echo '{}'",
    "broken.sh": 'echo "cannot do it with $LLM_AGENT_VAR_TOKEN" >&2; exit 3',
    "tools.py": _LOOK,
    "docs/sky.md": "The sky is blue.",
}
_HELPER = "start: z\nnodes: {z: {type: end, output: helped}}"


def exported(engine: Engine, collector: Collector) -> list[Received]:
    """Return all spans after everything was sent."""
    assert engine.services.spans is not None
    engine.services.spans.close()
    return collector.spans()


def drawn(spans: Sequence[Received], names: dict[str, str]) -> str:
    """Return spans as a tree; ids of runs are named, and times left out."""

    def lines(parent: str, depth: int) -> Iterator[str]:
        mine = [span for span in spans if span.parent == parent]
        for span in sorted(mine, key=lambda each: str(each.attributes.get("sleipnir.visit"))):
            failed = f" FAILED: {span.message}" if span.failed else ""
            yield f"{'  ' * depth}{span.name} ({span.kind}){failed}"
            for name, value in sorted(span.attributes.items()):
                if name not in _VARYING:
                    yield f"{'  ' * depth}    {name} = {shown(value)}"
            yield from lines(span.span, depth + 1)

    def shown(value: object) -> str:
        text = str(value)
        if len(text) == 16 and not text.strip("0123456789abcdef"):
            return names[text] if text in names else names.setdefault(text, f"RUN {len(names)}")
        return text

    return "\n".join(lines("", 0)) + "\n"


def test_a_run_is_one_tree_of_spans_each_of_which_comes_once(
    traced: Engine, collector: Collector, server: ModelServer, tmp_path: Path
) -> None:
    traced.write("helper", _HELPER)
    embedding(server).script.add(calls(("look", {"what": "it"})), says("blue it is"))
    request = {"variables": {"token": "s3cr3t-token"}, "labels": {"of": "tour"}, "user": "grace"}
    run_id = traced.submit(_TOUR, _FILES, workdir=str(tmp_path), **request)
    lost = traced.pop()
    assert lost is not None
    traced.begin(run_id, lost[1])  # its worker is killed
    traced.clock.move(60)
    traced.tick()
    traced.drive()
    traced.clock.move(60)
    traced.tick()
    traced.drive()
    traced.client.answer(run_id, "blue", by="ada", via="cli")
    traced.drive()
    assert traced.run(run_id).output == "blue it is"

    spans = exported(traced, collector)

    ids = {span.span for span in spans}
    assert not [span.name for span in spans if span.parent and span.parent not in ids]
    assert max(Counter(span.span for span in spans).values()) == 1
    assert len({span.trace for span in spans}) == 1
    text = drawn(spans, {})
    if "RENEW" in os.environ:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
    assert "s3cr3t" not in str(spans)


def test_a_retry_and_a_fork_are_traces_of_their_own_with_a_link(
    traced: Engine, collector: Collector
) -> None:
    graph = """
        start: one
        nodes:
          one: {type: set, values: {ok: true}, next: two}
          two: {type: script, script: two.sh, next: end}
          end: {type: end, output: done}
    """
    request = {"traceparent": PARENT, "tracestate": "a=1", "strict": True}
    run_id = traced.submit(graph, {"two.sh": "exit 3"}, **request)
    traced.drive()
    traced.write("tested", graph, {"two.sh": "echo '{}'"})
    traced.client.retry(run_id, agent="tested")
    traced.drive()
    fork = traced.client.fork(run_id, 1).run_id
    traced.drive()

    spans = exported(traced, collector)

    first, again, forked = [span for span in spans if span.name == "invoke_workflow tested"]
    assert (first.trace, first.parent, first.state) == (32 * "a", 16 * "b", "a=1")
    assert first.failed
    assert first.attributes["error.type"] == "R013"
    assert (again.parent, again.failed, again.links) == ("", False, ((first.trace, first.span),))
    assert forked.attributes["sleipnir.run_id"] == fork
    assert (forked.parent, forked.links) == ("", ((again.trace, again.span),))
    assert len({first.trace, again.trace, forked.trace}) == 3
    assert len({span.span for span in spans}) == len(spans)


def test_what_a_cancellation_interrupts_has_spans_too(traced: Engine, collector: Collector) -> None:
    child = "start: ask\nnodes: {ask: {type: input, question: Well?, next: z}, z: {type: end}}"
    traced.write("helper", child)
    graph = """
        start: call
        nodes:
          call: {type: agent, agent: helper, prompt: Help, next: end}
          end: {type: end}
    """
    run_id = traced.submit(graph)
    traced.drive()
    traced.client.cancel(run_id)

    spans = exported(traced, collector)

    assert sorted((span.name, span.attributes["error.type"]) for span in spans) == [
        ("invoke_workflow helper", "cancelled"),
        ("invoke_workflow tested", "cancelled"),
        ("node ask", "interrupted"),
        ("node call", "interrupted"),
    ]
    ids = {span.span for span in spans}
    assert [span.name for span in spans if span.parent not in ids] == ["invoke_workflow tested"]


def test_what_its_parent_does_not_sample_is_not_exported(
    traced: Engine, collector: Collector
) -> None:
    graph = "start: z\nnodes: {z: {type: end}}"
    for flags in ("00", "01"):
        traced.submit(graph, traceparent=PARENT[:-2] + flags, labels={"flags": flags})
    traced.drive()

    spans = exported(traced, collector)

    assert [span.attributes["sleipnir.label.flags"] for span in spans] == ["01", "01"]


def test_who_has_submitted_over_the_monitor_is_the_user_of_all_spans(
    traced: Engine, collector: Collector
) -> None:
    traced.write("helper", _HELPER)
    wanted = {"agent": "helper", "prompt": "Help"}
    lines = {"agent": "helper", "lines": '{"prompt": "Help"}', "format": "jsonl"}
    headers = {**basic("ada", "secret"), "Content-Type": "application/json"}
    with ServedSite(traced.client, Access(password="ada:secret")) as site:
        for path, body in (("/api/v1/runs", wanted), ("/api/v1/batches", lines)):
            given = site.ask(path, "POST", headers=headers, body=json.dumps(body))
            assert given.status in (201, 202), given.text
    traced.drive()

    spans = exported(traced, collector)

    assert [span.attributes["user.id"] for span in spans] == ["ada"] * 4
