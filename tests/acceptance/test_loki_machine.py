"""What a machine that ran agents before has on it, runs as it is: `loki_machine/` has no edit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.conversations import converses, results
from tests.support.model_server import ModelServer, calls, says

ORDER = {
    "item": "peas; rm -rf $HOME",
    "grams": 250,
    "most": 4.5,
    "label": ["early", "sweet 'one'"],
    "days": "mon,thu",
    "window": ["8", "12"],
    "urgent": True,
    "verbose": True,
    "notes": ["ring", "twice"],
}


def script(server: ModelServer) -> None:
    """What the models of the two agents say and call."""
    converses(
        server,
        "You plan the garden Harbour Road.",
        calls(
            ("list_beds", {"kind": "sun", "lengths": True}),
            ("seed_stock", {"kind": "peas", "unit": "packets", "with_shop": True}),
            ("frost_dates", {"place": "Harbour Road", "year": 2025, "crops": ["beans", "peas"]}),
            ("mcp_search_almanac", {"query": "moon"}),
            text="Let me look.",
        ),
        calls(("mcp_describe_almanac", {"tool": "moon_phase"})),
        calls(
            ("mcp_invoke_almanac", {"tool": "moon_phase", "arguments": {"day": "2025-05-01"}}),
            ("order_seed", {"item": "peas"}),
        ),
        says('{"summary": "peas and beans", "crops": ["peas", "beans"]}'),
    )
    for crop in ("peas", "beans"):
        converses(
            server,
            f"Write a note on sowing {crop}.",
            calls(("sowing_note", {"crop": crop, "next": "autumn"})),
            calls(("tidy_name", {"words": ["garden", crop]})),
            says(f"Sow {crop}."),
        )
    converses(
        server,
        "Examine the soil for: peas and beans Depth 15.",
        calls(
            ("read_ph", {"bed": "south wall", "depth": 15}),
            ("mix", {"parts": {"loam": 2.5, "sand": 1}, "factor": 2, "notes": ["sieved"]}),
        ),
        says("Lime is needed."),
    )
    converses(
        server,
        "Order the seed for",
        calls(
            ("order_seed", ORDER),
            ("clear_bed", {"bed": "south wall"}),
            ("fs_write", {"path": "made/plan.md", "content": "peas\n"}),
            ("order_seed", {"item": "beans"}),
        ),
        says("Ordered."),
    )
    converses(
        server,
        "Make a label for",
        calls(
            ("sowing_note", {"crop": "peas"}),
            ("seed_stock", {"kind": "peas"}),
            ("tidy_name", {"words": ["peas"]}),
        ),
        says("Spring in Harbour Road"),
    )


@pytest.fixture(scope="module")
def finished(loki_machine: Sleipnir, server: ModelServer) -> Mapping[str, Any]:
    """The document of a run of the planner, and under `narration` what it said meanwhile."""
    script(server)
    done = loki_machine(
        *("run", "garden-planner", "What shall we grow?", "--json"),
        *("--answer", "approve=yes", "--answer", "title="),
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "narration": done.stderr}


def secrets_of(machine: Sleipnir) -> list[str]:
    """What nobody may see."""
    file = Path(machine.environment["SLEIPNIR_CONFIG_DIR"]) / "secrets.yaml"
    return list(json.loads(file.read_text()).values())


def test_its_agents_are_valid_and_there_is_nothing_to_warn_of(loki_machine: Sleipnir) -> None:
    validated = loki_machine("validate", "garden-planner", "soil-lab", "--json", "--strict")

    assert validated.returncode == 0
    assert [json.loads(line) for line in validated.stdout.splitlines()] == [
        {
            "valid": True,
            "findings": [],
            "unasked": [{"node": "order", "tools": ["clear_bed", "fs_write"]}],
            "uncallable": [],
        }
    ]


def test_a_run_comes_to_what_its_models_and_tools_made(finished: Mapping[str, Any]) -> None:
    assert finished["output"] == (
        'Spring in Harbour Road: ["Sow peas.","Sow beans."] Lime is needed. ["Ordered."]'
    )


def test_functions_of_every_kind_answer_the_model(
    finished: Mapping[str, Any], server: ModelServer
) -> None:
    beds, stock, frost, search, description, moon, refused = results(server, "You plan")

    assert json.loads(beds) == ["south wall, 6 m"]
    assert json.loads(stock) == {"output": "- peas: 40 packets\n- more at Millbrook Seeds\n"}
    assert json.loads(frost) == {"place": "Harbour Road", "date": "2025-04-27", "tender": ["beans"]}
    assert json.loads(search)[0]["name"] == "moon_phase"
    assert json.loads(description)["properties"]["arguments"]["required"] == ["day"]
    assert json.loads(moon)["content"][0]["text"] == "waxing on 2025-05-01, asked with ***"
    assert json.loads(refused).keys() == {"tool_call_error"}


def test_options_of_every_kind_reach_their_variables(
    finished: Mapping[str, Any], server: ModelServer, loki_machine: Sleipnir
) -> None:
    ordered, cleared, written, beans = results(server, "Order the seed")

    first, second = (
        "250 g peas; rm -rf $HOME labels=early sweet 'one' days=mon thu window=8 12 most=4.5 "
        "urgent=1 verbose=1 notes=ring twice for Harbour Road",
        "cleared south wall",
    )
    assert json.loads(ordered) == {"output": f"{first}, code ***\n"}
    assert json.loads(cleared) == {"output": "cleared\n"}
    assert "missing required argument 'days'" in json.loads(beans)["stderr"]
    assert (loki_machine.project / "ledger.txt").read_text().splitlines() == [first, second]
    assert (loki_machine.project / "made" / "plan.md").read_text() == "peas\n", written


def test_defaults_and_choices_that_functions_print_are_had(
    finished: Mapping[str, Any], server: ModelServer
) -> None:
    assert [json.loads(result) for result in results(server, "sowing peas")] == [
        {"output": "peas: sow in spring and autumn\n"},
        {"output": "Garden peas"},
    ]


def test_python_functions_get_values_of_their_types(
    finished: Mapping[str, Any], server: ModelServer
) -> None:
    ph, mix = (json.loads(result) for result in results(server, "Examine"))

    expected = {"ph": 6.5, "bed": "south wall", "depth": 15, "method": "strip", "bench": "bench 4"}
    assert ph == {**expected, "by": "***"}
    assert mix == {"output": "loam 5, sand 2, water 1, sieved"}


def test_models_are_told_what_the_files_declare(
    finished: Mapping[str, Any], server: ModelServer
) -> None:
    request = next(each for each in server.requests if "Order the seed" in each.text)

    declared = {tool["function"]["name"]: tool["function"] for tool in request.body["tools"]}

    order = declared["order_seed"]["parameters"]
    assert list(declared) == ["order_seed", "clear_bed", "fs_write"]
    assert order["required"] == ["item", "days"]
    assert order["properties"]["grams"] == {"type": "integer", "description": "How much."}
    assert order["properties"]["language"]["enum"] == ["en", "de"]
    assert {name for name, schema in order["properties"].items() if schema["type"] == "array"} == {
        *("label", "days", "window", "notes")
    }


def test_the_narration_tells_what_is_called_and_printed(finished: Mapping[str, Any]) -> None:
    said = finished["narration"].splitlines()

    for line in (
        "▸   llm call: model=openai:gpt-4o-mini tools=order_seed,clear_bed,fs_write",
        "▸     counting peas",
        "▸     ordering with code ***",
        "▸   tool order_seed: failed: order_seed: the call was refused: error: missing required "
        "argument 'days'",
    ):
        assert line in said


def test_logs_keep_turns_calls_and_what_tools_wrote(
    finished: Mapping[str, Any], loki_machine: Sleipnir
) -> None:
    entries = loki_machine("logs", finished["run_id"], "--node", "order").stdout

    assert "the shop knows ***" in entries
    assert "order_seed" in entries
    assert "Ordered." in entries


def test_usage_counts_every_turn_of_every_node(
    finished: Mapping[str, Any], loki_machine: Sleipnir
) -> None:
    shown = loki_machine.json("show", finished["run_id"])

    # 15 tokens a turn: 4 of the plan, 3 of each of 2 notes, 2 of the laboratory, order and label.
    by_node = {node["id"]: node["usage"]["total_tokens"] for node in shown["nodes"]}
    assert {node: by_node[node] for node in ("plan", "advise_one", "soil", "order")} == {
        **{"plan": 60, "advise_one": 90, "soil": 30, "order": 30}
    }
    assert shown["usage"]["total_tokens"] == finished["usage"]["total_tokens"] == 240


def test_no_secret_is_shown_kept_or_sent_anywhere(
    finished: Mapping[str, Any], server: ModelServer, loki_machine: Sleipnir
) -> None:
    run_id = finished["run_id"]
    child = loki_machine.json("show", run_id)["children"][0]["run_id"]
    secrets = secrets_of(loki_machine)
    seen = [json.dumps(finished), *(request.text for request in server.requests)]
    for verb, shown in (("show", run_id), ("logs", run_id), ("logs", child), ("watch", child)):
        done = loki_machine(verb, shown)
        seen += [done.stdout, done.stderr]
    seen.append((loki_machine.project.parent / "up.log").read_text())

    assert [secret for secret in secrets if any(secret in text for text in seen)] == []
    assert "***" in "".join(seen)


def test_no_secret_is_in_what_the_engine_keeps(
    finished: Mapping[str, Any], loki_machine: Sleipnir
) -> None:
    files = [
        file
        for file in Path(loki_machine.environment["SLEIPNIR_DATA_DIR"]).rglob("*")
        if file.is_file()
    ]

    kept = b"".join(file.read_bytes() for file in files)

    assert finished["run_id"].encode() in kept  # Redis writes down every change
    assert [secret for secret in secrets_of(loki_machine) if secret.encode() in kept] == []


def test_tools_that_are_edited_do_not_change_a_run_under_way(
    finished: Mapping[str, Any], server: ModelServer, loki_machine: Sleipnir
) -> None:
    before = results(server, "Make a label for")
    run_id = loki_machine.json("run", "garden-planner", "?", "--answer", "title=")["run_id"]
    config = Path(loki_machine.environment["SLEIPNIR_CONFIG_DIR"])
    files = [file for file in config.rglob("*.sh") if file.is_file()]
    originals = {file: file.read_text() for file in files}

    for file in files:
        file.write_text("echo edited >&2\nexit 1\n")
    loki_machine("answer", run_id, "yes")
    watched = loki_machine("watch", run_id)
    for file, text in originals.items():
        file.write_text(text)

    assert len(files) == 6
    assert (watched.returncode, watched.stdout) == (0, f"{finished['output']}\n")
    assert results(server, "Make a label for") == before
    assert not any("tool_call_error" in result for result in before)
