"""`sleipnir plan`: what runs will do and cost, without running them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.media import PNG, pdf
from tests.support.model_server import ModelServer, says

SORT = """
model: own:small
initial_state: {text: "", label: ""}
start: sort
nodes:
  sort:
    type: llm
    prompt: "Which of bill, other is this? {{text}}"
    max_tokens: 20
    state_updates: {label: "{{output}}"}
    next:
      - {when: "label == 'bill'", to: answer}
      - {to: done}
  answer:
    type: llm
    prompt: "Answer {{label}}."
    max_tokens: 100
    max_attempts: 3
    cache: true
    next: done
  done: {type: end, output: "{{label}}"}
"""
EACH = """
model: own:small
start: look
nodes:
  look: {type: map, over: "{{places}}", as: place, branch: tell, collect_into: told, next: done}
  tell: {type: llm, prompt: "Tell of {{place}}", max_tokens: 10}
  done: {type: end, output: "{{told}}"}
"""
CALLS_OTHERS = """
model: own:small
start: sorted
nodes:
  sorted: {type: agent, agent: sort, prompt: "{{initial_prompt}}", next: talk}
  talk: {type: agent, agent: friend, prompt: "{{initial_prompt}}", next: done}
  done: {type: end}
"""
PRICE = {"prompt": 1.0, "completion": 4.0}
LINES = ["I want my money", "hi", "I want my money"]


@pytest.fixture(scope="module")
def server() -> Any:
    with ModelServer() as server:
        server.when("money", says("bill"))
        server.when("hi", says("other"))
        server.when("Answer", says("You get it back."))
        yield server


@pytest.fixture(scope="module")
def sleipnir(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Sleipnir:
    """The command, where one model has a price."""
    command = Sleipnir(tmp_path_factory.mktemp("plan"))
    command.write("sort", SORT)
    command.write("each", EACH)
    command.write("others", CALLS_OTHERS)
    friend = command.project / "agents" / "friend"
    friend.mkdir()
    (friend / "config.yaml").write_text("model: own:unpriced\ninstructions: Be kind.\n")
    config = Path(command.environment["SLEIPNIR_CONFIG_DIR"])
    config.mkdir(exist_ok=True)
    (config / "config.yaml").write_text(
        json.dumps(
            {
                "models": {
                    "providers": {"own": {"api_base": server.base_url}},
                    "prices": {"own:small": PRICE},
                }
            }
        )
    )
    rows = "".join(f"{line}\n" for line in LINES)
    (command.project / "in.csv").write_text(f"text\n{rows}")
    return command


def node(found: Any, name: str) -> Any:
    return next(each for each in found["nodes"] if each["id"] == name)


def bounds(figure: Any) -> tuple[Any, Any]:
    assert figure["expected"] is None  # known from a sample only
    return figure["least"], figure["most"]


def test_bounds_by_node_and_for_all_lines(sleipnir: Sleipnir) -> None:
    found = sleipnir.json("plan", "sort", "in.csv")

    assert (found["agent"], found["lines"], found["known_prompt_share"]) == ("sort", 3, 1.0)
    tokens = [-(-len(f"Which of bill, other is this? {line}") // 4) for line in LINES]
    sort, answer = node(found, "sort"), node(found, "answer")
    assert (sort["type"], bounds(sort["visits"]), bounds(sort["calls"])) == ("llm", (1, 1), (1, 1))
    assert bounds(sort["tokens_in"]) == (min(tokens), max(tokens))
    assert bounds(sort["tokens_out"]) == (0, 20)
    assert (bounds(answer["visits"]), bounds(answer["calls"])) == ((0, 1), (0, 3))
    assert bounds(answer["tokens_in"]) == (0, None)  # what the other model says
    assert bounds(answer["tokens_out"]) == (0, 300)
    assert bounds(found["per_line"]["calls"]) == (1, 4)
    assert bounds(found["total"]["calls"]) == (3, 12)
    assert found["total"]["tokens_in"]["least"] == sum(tokens)
    assert found["total"]["usd"]["least"] == pytest.approx(sum(tokens) / 1e6)
    assert found["total"]["usd"]["most"] is None
    assert len(found["version"]) == 12

    half = sleipnir.json("plan", "--economy", "sort", "in.csv")
    assert half["total"]["usd"]["least"] == found["total"]["usd"]["least"] / 2
    assert node(half, "sort")["usd"]["most"] == node(found, "sort")["usd"]["most"] / 2


def test_an_engine_is_not_needed(sleipnir: Sleipnir) -> None:
    sleipnir.json("plan", "sort", "in.csv")

    data = Path(sleipnir.environment["SLEIPNIR_DATA_DIR"])
    assert not data.exists() or not any(data.rglob("*.rdb"))


def test_what_a_batch_does_is_within_the_bounds(sleipnir: Sleipnir, server: ModelServer) -> None:
    plan = sleipnir.json("plan", "sort", "in.csv")
    before = len(server.requests)

    done = sleipnir("batch", "sort", "in.csv", "--name", "sorted", "-o", "out.jsonl")

    assert done.returncode == 0, done.stderr
    made = len(server.requests) - before
    assert plan["total"]["calls"]["least"] <= made <= plan["total"]["calls"]["most"]


def test_items_of_a_list_that_a_line_brings(sleipnir: Sleipnir, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"state": {"places": ["Rome", "Oslo"]}}\n{"state": {"places": []}}\n')

    found = sleipnir.json("plan", "each", str(lines))

    assert bounds(node(found, "tell")["visits"]) == (0, 2)
    assert bounds(found["total"]["calls"]) == (2, 2)
    assert bounds(found["total"]["tokens_in"]) == (6, 6)
    assert bounds(sleipnir.json("plan", "each")["total"]["calls"]) == (0, None)


def test_agents_below_and_a_price_that_is_not_known(sleipnir: Sleipnir) -> None:
    found = sleipnir.json("plan", "others")
    told = sleipnir("plan", "others")

    assert bounds(node(found, "sorted")["calls"]) == (1, 4)
    assert bounds(node(found, "talk")["calls"]) == (1, None)
    assert node(found, "talk")["usd"] == {"least": None, "expected": None, "most": None}
    assert found["total"]["usd"]["least"] is None
    assert "own:unpriced" in told.stderr
    assert "models: {prices:" in told.stderr


def test_the_exit_code_says_whether_a_budget_may_be_enough(sleipnir: Sleipnir) -> None:
    assert sleipnir("plan", "sort", "in.csv", "--budget", "1").returncode == 0
    too_small = sleipnir("plan", "sort", "in.csv", "--budget", "0.00001")
    assert (too_small.returncode, "cost at least" in too_small.stderr) == (1, True)
    assert sleipnir("plan", "others", "--budget", "1").returncode == 1
    assert sleipnir("plan", "sort", "--set", "text=hello").returncode == 0


def test_findings_of_agent_and_plan(sleipnir: Sleipnir, tmp_path: Path) -> None:
    sleipnir.write("cached", SORT.replace("max_tokens: 20", "cache: true"))
    sleipnir.write("broken", SORT.replace("to: done", "to: nowhere"))
    sleipnir.write(
        "unset",
        SORT.replace("Answer {{label}}", "Answer {{why}}")
        .replace("  answer:", "  other: {type: set, values: {why: label}, next: answer}\n  answer:")
        .replace("{to: done}", "{to: other}"),
    )
    lines = tmp_path / "lines.csv"
    lines.write_text("text\none\ntwo\n")

    found = sleipnir.json("plan", "cached", str(lines))
    alike = sleipnir.json("plan", "cached", "in.csv")
    log = tmp_path / "log.sarif"
    broken = sleipnir("plan", "broken", "--sarif", str(log))

    (unset,) = [
        each for each in sleipnir.json("plan", "unset")["findings"] if each["code"] == "W028"
    ]
    assert unset["message"].endswith("nothing sets 'why' on the path sort -> answer")
    assert unset["line"] > 1
    assert [each["node"] for each in found["findings"] if each["code"] == "W031"] == ["sort"]
    assert not [each for each in alike["findings"] if each["code"] == "W031"]
    assert (broken.returncode, "E101" in broken.stderr) == (3, True)
    (run,) = json.loads(log.read_text())["runs"]
    (result,) = [each for each in run["results"] if each["ruleId"] == "E101"]
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 1


def test_lines_that_cannot_be_used_are_refused(sleipnir: Sleipnir, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"state": {"text": "a"}}\nnot JSON\n')

    refused = sleipnir("plan", "sort", str(lines))

    assert (refused.returncode, "line 2" in refused.stderr) == (2, True)
    assert sleipnir("plan", "sort", str(lines), "--skip-bad").returncode == 0


def test_a_sample_is_run_as_lines_of_the_batch(
    sleipnir: Sleipnir, server: ModelServer, tmp_path: Path
) -> None:
    lines = tmp_path / "forty.csv"
    lines.write_text("text\n" + "".join(f"hi {number}\n" for number in range(40)))
    before = len(server.requests)

    found = sleipnir.json("plan", "sort", str(lines), "--sample", "12", "--name", "forty")
    told = sleipnir("plan", "sort", str(lines), "--sample", "12", "--name", "forty")
    sampled = len(server.requests) - before
    sleipnir("batch", "sort", str(lines), "--name", "forty")

    assert (found["sample"]["lines"], found["sample"]["failed"], sampled) == (12, 0, 12)
    assert len(server.requests) - before == 40  # nothing is paid for twice
    sort = node(found, "sort")
    assert (sort["calls"]["expected"], node(found, "answer")["calls"]["expected"]) == (1, 0)
    assert found["total"]["calls"]["expected"] == 40
    usd = found["total"]["usd"]
    assert usd["low"] <= usd["expected"] <= usd["high"]
    (route,) = found["sample"]["routes"]
    assert route == {"node": "sort", "index": 2, "label": "else", "lines": 12}
    assert found["time_s"] is not None
    assert node(found, "answer")["visits"]["expected"] == 0
    (sampled_sort,) = [each for each in found["sample"]["nodes"] if each["id"] == "sort"]
    assert 0 < sampled_sort["seconds"]["mean"] <= sampled_sort["seconds"]["p90"]
    assert "0 … ~0 … 1" in told.stdout  # visits of `answer`
    assert "From 12 of 40 lines (0 failed)" in told.stdout
    assert "Nine of ten make at most 1.0 calls" in told.stdout
    assert "sort (else): taken by 12 of 12 lines" in told.stdout
    assert "All 40 lines cost about $" in told.stdout


def test_lines_of_the_same_version_count_whatever_else_changes(
    sleipnir: Sleipnir, server: ModelServer, tmp_path: Path
) -> None:
    directory = sleipnir.write("same", SORT)
    lines = tmp_path / "twenty.csv"
    lines.write_text("text\n" + "".join(f"hi {number}\n" for number in range(20)))
    first = sleipnir.json("plan", "same", str(lines), "--sample", "12", "--name", "twenty")
    before = len(server.requests)
    (directory / "README.md").write_text("It sorts.")

    again = sleipnir.json("plan", "same", str(lines), "--sample", "12", "--name", "twenty")
    by_default = sleipnir.json("plan", "same", "--sample", str(lines), "--name", "twenty")
    result = json.loads(
        sleipnir("batch", "same", str(lines), "--name", "twenty").stdout.split("\n")[0]
    )

    assert again["sample"] == first["sample"]
    assert again["version"] == first["version"] == result["agent_version"]
    assert by_default["sample"]["lines"] == 20
    assert len(server.requests) - before == 8


def test_lines_that_were_run_show_prompts_that_are_too_long(
    sleipnir: Sleipnir, server: ModelServer, tmp_path: Path
) -> None:
    model = "openai:gpt-3.5-turbo"  # reads 16,385 tokens
    sleipnir.write("long", SORT.replace("own:small", model).replace("Answer {{", "Reply to {{"))
    server.when("Reply to", says("Yes.", prompt_tokens=20_000))
    lines = tmp_path / "one.csv"
    lines.write_text("text\nmy money\n")
    openai = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-of-a-test"}

    before = sleipnir("plan", "long", str(lines), "--json", **openai)
    after = sleipnir("plan", "long", str(lines), "--sample", "1", "--json", **openai)

    assert json.loads(before.stdout)["findings"] == []
    (finding,) = json.loads(after.stdout)["findings"]
    assert (finding["code"], finding["node"]) == ("W029", "answer")
    assert "a prompt of 20,000 tokens" in finding["message"]


def test_a_sample_needs_an_input(sleipnir: Sleipnir) -> None:
    refused = sleipnir("plan", "sort", "--sample")

    assert (refused.returncode, "INPUT" in refused.stderr) == (2, True)


def test_batch_shows_the_plan_first(sleipnir: Sleipnir, tmp_path: Path) -> None:
    lines = tmp_path / "first.csv"
    lines.write_text("text\nhi\n")
    command = ("batch", "sort", str(lines), "--name", "first", "--plan")

    shown = sleipnir(*command)
    started = sleipnir(*command, "--yes")

    assert shown.returncode == 0
    assert "TOKENS IN" in shown.stderr
    assert "nothing was started" in shown.stderr
    assert json.loads(started.stdout)["output"] == "other"
    terminal = sleipnir.on_terminal(*command)
    terminal.wait_for("Start? [y/N]")
    terminal.type("\r")
    assert terminal.end()[0] == 0


def test_validate_writes_sarif(sleipnir: Sleipnir, tmp_path: Path) -> None:
    log = tmp_path / "log.sarif"
    sleipnir.write("wrong", SORT.replace("to: done", "to: nowhere"))

    done = sleipnir("validate", "wrong", "--sarif", str(log))

    assert done.returncode == 3
    rules = json.loads(log.read_text())["runs"][0]["tool"]["driver"]["rules"]
    assert "E101" in [rule["id"] for rule in rules]


def test_files_of_lines_count_and_are_named_by_a_column(sleipnir: Sleipnir) -> None:
    sleipnir.write(
        "scans",
        "model: own:small\ninitial_state: {scan: ''}\nstart: read\nnodes:\n"
        "  read: {type: llm, prompt: Read., attach: ['{{scan}}'], next: done}\n"
        "  done: {type: end}\n",
    )
    (sleipnir.project / "scans").mkdir()
    (sleipnir.project / "scans" / "a.png").write_bytes(PNG)
    (sleipnir.project / "scans" / "b.pdf").write_bytes(pdf(3))
    (sleipnir.project / "scans" / "in.csv").write_text("scan\na.png\nb.pdf\n")
    call = ("scans", "scans/in.csv", "--attach")

    planned = sleipnir.json("plan", *call, "scan")
    unknown = sleipnir("plan", *call, "scen")
    (sleipnir.project / "scans" / "in.csv").write_text("scan\na.png\nc.pdf\n")
    missing = sleipnir("batch", *call, "scan")

    text = 2  # tokens of the prompt
    assert planned["total"]["tokens_in"]["least"] == 1_500 + 3 * 2_000 + 2 * text
    assert (unknown.returncode, "no line of scans/in.csv has scen" in unknown.stderr) == (2, True)
    assert missing.returncode == 2
    assert "line 3: cannot attach 'c.pdf': No such file or directory" in missing.stderr
