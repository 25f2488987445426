"""Every limit holds, and says which of them it was and what went over it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.processes import is_alive
from tests.support.wait import wait_until

LIMITS = {
    "SLEIPNIR_STATE_LIMIT_BYTES": "40000",
    "SLEIPNIR_VALUE_LIMIT_BYTES": "20000",
    "SLEIPNIR_OUTPUT_LIMIT_BYTES": "60000",
    "SLEIPNIR_MAP_ITEMS_LIMIT": "10",
}
LOOP = """
settings: {max_loop_iterations: 4}
initial_state: {turns: 0}
reducers: {turns: sum}
start: turn
nodes:
  turn: {type: script, script: turn.sh}
  done: {type: end}
"""
TURN = """
echo '{"turns": 1, "_next": "turn"}'
"""
# Neither the script nor its child ends when asked to.
STUBBORN = """
trap '' TERM
echo "$$" >> pids
(echo "$BASHPID" >> pids; exec sleep 60) &
wait
"""
BLOCKED = """
settings: {timeout: SECONDS}
start: work
nodes:
  work: {type: script, script: work.sh, timeout: 60, next: done}
  done: {type: end}
"""
# Writes to each of the keys named in `sizes` a text of that length.
FILL = """
import json, os
sizes = json.loads(os.environ["GRAPH_STATE"])["sizes"]
print(json.dumps({key: "x" * size for key, size in sizes.items()}))
"""
FILLER = """
start: fill
nodes:
  fill: {type: script, script: fill.py, next: done}
  done: {type: end, output: full}
"""
MAPPER = """
start: each
nodes:
  each:
    {type: map, over: "{{items}}", as: item, branch: one, collect_into: results, next: done}
  one: {type: script, script: one.sh, state_updates: {output: "{{item}}"}}
  done: {type: end, output: "{{results}}"}
"""


@pytest.fixture(scope="module")
def sleipnir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sleipnir]:
    """An engine with small limits, and agents that go over them."""
    sleipnir = Sleipnir(tmp_path_factory.mktemp("limited"))
    sleipnir.environment |= LIMITS
    sleipnir.write("loop", LOOP, {"turn.sh": TURN})
    for name, seconds in (("second", "1"), ("minute", "60")):
        sleipnir.write(name, BLOCKED.replace("SECONDS", seconds), {"work.sh": "sleep 60"})
    sleipnir.write("stubborn", BLOCKED.replace("SECONDS", "1"), {"work.sh": STUBBORN})
    sleipnir.write("filler", FILLER, {"fill.py": FILL})
    sleipnir.write("mapper", MAPPER, {"one.sh": "echo '{}'"})
    with sleipnir.up():
        yield sleipnir


def fill(sleipnir: Sleipnir, **sizes: int) -> Any:
    """The document of a run that writes texts of these lengths."""
    return sleipnir.json("run", "filler", "--set", f"sizes={json.dumps(sizes)}")


def test_a_loop_ends_at_the_visit_cap_exactly(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "loop", "--json")

    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["error"] == {
        "code": "R004",
        "message": "Node 'turn' visited 5 times (max_loop_iterations=4)",
        "node": "turn",
        "caused_by": [],
    }
    assert (found["state"]["turns"], found["steps"]) == (4, 4)


def test_a_blocked_run_is_timed_out_and_its_programs_are_killed(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    done = sleipnir("run", "stubborn", "--json", "--workdir", str(tmp_path))

    found = json.loads(done.stdout)
    assert (done.returncode, found["status"]) == (6, "timed_out")
    assert found["error"]["code"] == "R005"
    assert found["error"]["message"] == "the run took longer than its limit of 1s"
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_alive, pids)), "the process group is gone")


@pytest.mark.parametrize(
    ("agent", "limit_s"),
    [pytest.param("minute", "1", id="lowered"), pytest.param("second", "60", id="not-raised")],
)
def test_a_submission_may_lower_the_limit_not_raise_it(
    sleipnir: Sleipnir, agent: str, limit_s: str
) -> None:
    done = sleipnir("run", agent, "--json", "--timeout", limit_s)

    assert done.returncode == 6
    assert 1 <= json.loads(done.stdout)["elapsed_s"] < 10


def test_a_value_over_its_limit_names_the_key_and_the_node(sleipnir: Sleipnir) -> None:
    found = fill(sleipnir, small=19_998, large=19_999)

    assert (found["status"], found["state"]["sizes"]["large"]) == ("failed", 19_999)
    assert found["error"] == {
        "code": "R021",
        "message": "node 'fill' wrote 20001 bytes to 'large'; the limit of a value is 20000 "
        "(value_limit_bytes)",
        "node": "fill",
        "caused_by": [],
    }
    assert "small" not in found["state"]


def test_a_value_at_its_limit_is_kept(sleipnir: Sleipnir) -> None:
    found = fill(sleipnir, small=19_998)

    assert (found["status"], len(found["state"]["small"])) == ("succeeded", 19_998)


def test_a_state_over_its_limit_fails_the_run_and_keeps_what_was(sleipnir: Sleipnir) -> None:
    found = fill(sleipnir, a=15_000, b=16_000, c=15_000)

    assert found["error"] == {
        "code": "R021",
        "message": "the state would exceed 40000 bytes (state_limit_bytes); "
        "the largest write of this step is 'b'",
        "node": None,
        "caused_by": [],
    }
    assert found["state"].keys() == {"initial_prompt", "sizes"}


def test_too_much_output_of_a_script_is_a_failure(sleipnir: Sleipnir) -> None:
    found = fill(sleipnir, a=70_000)

    # The script has a next: its failure is tolerated.
    assert (found["status"], found["state"]["error"]) == (
        "succeeded",
        "Script node failed: stdout too large",
    )


def test_a_map_takes_items_up_to_its_limit(sleipnir: Sleipnir) -> None:
    full = sleipnir.json("run", "mapper", "--set", f"items={list(range(10))}")
    over = sleipnir.json("run", "mapper", "--set", f"items={list(range(11))}")

    assert full["state"]["results"] == list(range(10))
    assert over["error"] == {
        "code": "R021",
        "message": "map 'each': 11 items, the limit is 10 (map_items_limit)",
        "node": "each",
        "caused_by": [],
    }


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        pytest.param(
            {"big": 20_000}, "'big' has 20002 bytes; the limit of a value is 20000", id="a-value"
        ),
        pytest.param(
            {"a": 15_000, "b": 15_000, "c": 15_000}, "the limit is 40000 (state_limit", id="all"
        ),
    ],
)
def test_seeds_over_a_limit_are_refused(
    sleipnir: Sleipnir, seeds: dict[str, int], message: str
) -> None:
    flags = [text for key, size in seeds.items() for text in ("--set", f"{key}={'x' * size}")]

    done = sleipnir("run", "filler", *flags)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_prompt_over_the_limit_is_refused(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "filler", "-", stdin="x" * 20_000)

    assert (done.returncode, done.stdout) == (2, "")
    assert "'initial_prompt' has 20002 bytes; the limit of a value is 20000" in done.stderr


def test_an_agent_over_the_limit_of_a_bundle_is_refused(sleipnir: Sleipnir) -> None:
    heap = " ".join(map(str, range(60_000)))
    sleipnir.write("heavy", FILLER, {"fill.py": FILL, "heap": heap})

    done = sleipnir("run", "heavy", SLEIPNIR_BUNDLE_LIMIT_BYTES=str(64 * 1024))

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: agent 'heavy': it takes more than 0.0625 MiB packed")
    assert "'agents/heavy/heap'" in done.stderr
