"""What a script prints: writes, or a failure that the graph can tolerate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.schema import ScriptNode
from sleipnir.graphs.state import encode
from sleipnir.worker.executors.script import run_script
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Wrote
from tests.support.fuzzing import EXAMPLES, fuzz, objects, rarely, texts, values
from tests.support.visits import a_visit

# The file ends with the script's exit status.
SCRIPT = """
head -c -1 "$LLM_AGENT_DATA_DIR/printed"
head -c -1 "$LLM_AGENT_DATA_DIR/printed" >&2
exit "$(tail -c 1 "$LLM_AGENT_DATA_DIR/printed")"
"""


def printed() -> SearchStrategy[bytes]:
    made = rarely(objects(output="x", _next=st.sampled_from(["z", "nowhere", ""]), x=1, error="e"))
    document = made.map(lambda value: json.dumps(value).encode())
    return document | st.binary(max_size=100) | texts().map(_encoded)


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def a_script(directory: Path, node: dict[str, Any]) -> Visit[ScriptNode]:
    script = ScriptNode(**{"id": "s", "script": "s.sh", "next": "z", **node})
    return a_visit(script, directory=directory)


@EXAMPLES
def test_what_is_printed_becomes_writes_or_a_failure(examples: int, tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text(SCRIPT)

    def check(example: tuple[bytes, bool]) -> None:
        output, fails = example
        (tmp_path / "printed").write_bytes(output + (b"1" if fails else b"0"))
        updates = {"seen": "{{x}} {{output}}", "raw": "{{output}}"}
        visit = a_script(tmp_path, {"state_updates": updates})
        outcome = run_script(visit)

        assert isinstance(outcome, Wrote)
        for key, value in outcome.writes.items():
            key.encode(errors="surrogatepass")
            assert json.loads(encode(value)) == json.loads(encode(value))
        assert bool(outcome.failure) >= fails
        for _, text in visit.services.run_log:
            text.encode()

    fuzz(examples, st.tuples(printed(), st.sampled_from([False, False, False, True])), check)


@EXAMPLES
def test_without_a_way_on_a_failure_fails_the_node(examples: int, tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text(SCRIPT)
    codes = set()

    def check(value: Any) -> None:
        (tmp_path / "printed").write_bytes(json.dumps(value).encode() + b"0")
        try:
            run_script(a_script(tmp_path, {"next": None}))
        except NodeFailed as failure:
            codes.add(failure.code)

    fuzz(examples, values(), check)
    assert codes <= {"R002", "R013"}
