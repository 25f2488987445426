"""The shipped agent `deep-research`: its scripts and its tool, run as the engine runs them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.document.references import SHIPPED_AGENTS, AgentSearch
from sleipnir.graphs.drawing import outline_of
from sleipnir.graphs.tools.shipped import SHIPPED_LIBRARY
from sleipnir.graphs.validator import Resources, validate
from sleipnir.graphs.validator.scripts import routes_of_scripts
from tests.support.web_server import Page, WebServer, redirect

AGENT = SHIPPED_AGENTS / "deep-research"


def writes(name: str, state: Any, tmp_path: Path, **environment: str) -> dict[str, Any]:
    """What one node script hands to the state; it must succeed."""
    base = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C",
        "LLM_PROMPT_UTILS_FILE": str(SHIPPED_LIBRARY / "utils.sh"),
        # Nothing is written beside the shipped scripts.
        "PYTHONPYCACHEPREFIX": str(tmp_path / "pycache"),
        "GRAPH_STATE": json.dumps(state),
    }
    process = subprocess.run(
        [sys.executable, "-S", str(AGENT / "scripts" / f"{name}.py")],
        cwd=tmp_path,
        env=base | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    result: dict[str, Any] = json.loads(process.stdout)
    return result


# ---- the graph


def test_every_way_that_a_run_may_take_is_drawn() -> None:
    graph = load_agent(AGENT).graph
    assert graph is not None
    outline = outline_of(graph, routes_of_scripts(AGENT, graph))

    assert [arrow for arrow in outline.arrows if arrow.kind == "chosen"] == []
    leading_back = [(a.source, a.target, a.label) for a in outline.arrows if a.kind == "back"]
    assert leading_back == [
        ("reflexion_gate", "research_each_question", "revise"),
        ("incorporate_feedback", "research_each_question", ""),
    ]
    lead_on = {arrow.source for arrow in outline.arrows}
    assert set(graph.nodes) - lead_on == {"research_one_question", "end_accepted", "end_rejected"}


@pytest.mark.parametrize(
    ("written", "misspelt", "finds"),
    [
        ("to: ask_topic", "to: ask_topik", "E101 [parse_request]"),
        ("{revise: research_each_question}", "{revise: research}", "E101 [reflexion_gate]"),
        ("when: topic ==", "when: topik ==", "W016 [parse_request]"),
        ("switch: outcome", "switch: outcom", "W016 [reflexion_gate]"),
        ("decision.trim()", "decison.trim()", "W016 [incorporate_feedback]"),
        ("      default: synthesize\n", "", "W022 [reflexion_gate]"),
    ],
)
def test_what_is_misspelt_in_a_route_is_found(
    tmp_path: Path, written: str, misspelt: str, finds: str
) -> None:
    directory = tmp_path / "deep-research"
    shutil.copytree(AGENT, directory)
    text = (AGENT / "graph.yaml").read_text(encoding="utf-8")
    (directory / "graph.yaml").write_text(text.replace(written, misspelt, 1), encoding="utf-8")

    found = validate(load_agent(directory), Resources(AgentSearch((SHIPPED_AGENTS,))))

    assert any(finds in str(finding) for finding in found)


# ---- the scripts


@pytest.mark.parametrize(
    ("questions", "findings", "expected"),
    [
        (["A?", "B?"], ["a", "b"], "## A?\n\na\n\n## B?\n\nb"),
        (["A?", "B?"], ["a"], "## A?\n\na\n\n## B?\n\n"),
        (["A?"], [None], "## A?\n\n"),
        (["A?"], ["a", "surplus"], "## A?\n\na"),
        (["A?"], [{"x": ["ä"]}], '## A?\n\n{\n  "x": [\n    "ä"\n  ]\n}'),
        (["A?"], None, "## A?\n\n"),
        ([], ["a"], "No questions were planned, so nothing was found."),
        (None, None, "No questions were planned, so nothing was found."),
    ],
)
def test_findings_stand_below_their_questions(
    tmp_path: Path, questions: Any, findings: Any, expected: str
) -> None:
    state = {"questions": questions, "question_findings": findings}

    assert writes("combine_findings", state, tmp_path) == {"findings": expected}


@pytest.mark.parametrize(
    ("critique", "attempts", "outcome"),
    [
        ("VERDICT: REVISE\nFEEDBACK: more", 0, "revise"),
        ("VERDICT: REVISE", 1, "revise"),
        ("VERDICT: REVISE", 2, "spent"),
        ("VERDICT: REVISE", "1", "revise"),
        ("VERDICT: REVISE", "many", "revise"),
        ("VERDICT: REVISE", None, "revise"),
        ("**Verdict:** *revise*, please", 0, "revise"),
        ("**VERDICT**: REVISE", 0, "revise"),
        ("verdict:\n  `REVISE`", 0, "revise"),
        ("VERDICT: PASS\nFEEDBACK: none", 0, "pass"),
        ("VERDICT: PASS, not VERDICT: REVISE", 0, "pass"),
        ("VERDICT: REVISED", 0, "pass"),
        ("please REVISE this", 0, "pass"),
        ("LLM node failed: timed out", 0, "pass"),
        ("", 0, "pass"),
        (None, 0, "pass"),
    ],
)
def test_the_gate_goes_back_for_revise_while_there_is_budget(
    tmp_path: Path, critique: Any, attempts: Any, outcome: str
) -> None:
    state = {"critique": critique, "research_attempts": attempts}

    found = writes("reflexion_gate", state, tmp_path)

    if outcome != "revise":
        assert found == {"outcome": outcome}
        return
    intro, blank, rest = found.pop("research_feedback").partition("\n\n")
    assert (bool(intro), blank, rest) == (True, "\n\n", critique)
    before = int(attempts) if str(attempts).isdecimal() else 0
    assert found == {"outcome": "revise", "research_attempts": before + 1}


def test_a_large_state_comes_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"questions": ["A?"], "question_findings": ["a"]}))

    found = writes("combine_findings", {}, tmp_path, GRAPH_STATE_FILE=str(file))

    assert found == {"findings": "## A?\n\na"}


# ---- the links of a report


@pytest.fixture(scope="module")
def web() -> Iterator[WebServer]:
    """What answers for every host: the scripts reach it as a proxy."""
    host = "http://sea.example"
    pages = {
        f"{host}/live": Page("here"),
        f"{host}/moved": redirect("/live"),
        f"{host}/gone": Page("gone", status=410),
    }
    with WebServer(pages) as server:
        yield server


def source_check(report: str | None, tmp_path: Path, web: WebServer) -> list[str]:
    """The lines that a person gets to see."""
    # Nothing answers by https.
    proxies = {"http_proxy": web.url(), "https_proxy": "http://127.0.0.1:1"}
    text: str = writes("verify_sources", {"report": report}, tmp_path, **proxies)["source_check"]
    return text.split("\n")


def test_each_source_is_listed_once_with_whether_it_answers(tmp_path: Path, web: WebServer) -> None:
    report = (
        "Tides move (http://sea.example/moved). See <http://sea.example/live>, "
        '"http://sea.example/live", [1](http://sea.example/gone)} and http://sea.example/none;\n'
        "or http://sea.example/live. See also doi:10.1000/tide."
    )

    heading, *lines = source_check(report, tmp_path, web)

    assert "5" in heading
    assert lines == [
        "  UNREACHABLE  http://sea.example/gone",
        "  OK  http://sea.example/live",
        "  OK  http://sea.example/moved",
        "  UNREACHABLE  http://sea.example/none",
        "  UNREACHABLE  DOI 10.1000/tide (https://doi.org/10.1000/tide)",
    ]


@pytest.mark.parametrize("status", [405, 501])
def test_what_does_not_know_head_is_asked_with_get(
    tmp_path: Path, web: WebServer, status: int
) -> None:
    web.pages["http://sea.example/old"] = Page("no HEAD here", status=status)
    web.visits.clear()

    source_check("http://sea.example/old", tmp_path, web)

    assert [visit.method for visit in web.visits] == ["HEAD", "GET"]


@pytest.mark.parametrize("report", ["Nothing is cited.", "", None])
def test_a_report_without_sources_is_told_so(
    tmp_path: Path, web: WebServer, report: str | None
) -> None:
    assert source_check(report, tmp_path, web) == ["The report cites no web source."]


def test_private_addresses_are_not_reached_unless_the_engine_allows_it(
    tmp_path: Path, web: WebServer
) -> None:
    web.pages["/local"] = Page("here")
    state = {"report": f"See {web.url('/local')}"}

    refused = writes("verify_sources", state, tmp_path)
    allowed = writes("verify_sources", state, tmp_path, LLM_ALLOW_PRIVATE_ADDRESSES="1")

    assert refused["source_check"].endswith(f"\n  UNREACHABLE  {web.url('/local')}")
    assert allowed["source_check"].endswith(f"\n  OK  {web.url('/local')}")


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ("https://a.example). (https://b.example)", ["https://a.example", "https://b.example"]),
        ("doi:10.1000/abc.", ["https://doi.org/10.1000/abc"]),
        ("(10.1016/S0140-6736(97)11096-0).", ["https://doi.org/10.1016/S0140-6736(97)11096-0"]),
        ("https://doi.org/10.1000/abc and 10.1000/abc", ["https://doi.org/10.1000/abc"]),
        (
            "10.1000/b, https://z.example, 10.1000/a",
            ["https://z.example", "https://doi.org/10.1000/a", "https://doi.org/10.1000/b"],
        ),
        ("version 10.2/3 and x10.1000/no", []),
    ],
)
def test_urls_come_first_then_dois_without_the_sentence_s_punctuation(
    monkeypatch: pytest.MonkeyPatch, report: str, expected: list[str]
) -> None:
    monkeypatch.syspath_prepend(str(AGENT / "scripts"))
    verify_sources = _module(AGENT / "scripts/verify_sources.py")

    assert [source.url for source in verify_sources["cited"](report)] == expected


# ---- the tool


@pytest.mark.parametrize(
    ("url", "host", "tier"),
    [
        ("https://www.energy.gov/a", "www.energy.gov", "HIGH - government"),
        ("https://www.met.gov.uk/", "www.met.gov.uk", "HIGH - government"),
        ("http://navy.mil", "navy.mil", "HIGH - government"),
        ("https://web.mit.edu/x?y=http://z.com", "web.mit.edu", "HIGH - academic"),
        ("https://www.anu.edu.au", "www.anu.edu.au", "HIGH - academic"),
        ("https://www.ox.ac.uk/", "www.ox.ac.uk", "HIGH - academic"),
        ("https://arxiv.org/abs/1", "arxiv.org", "PREPRINT"),
        ("https://export.arxiv.org/abs/1", "export.arxiv.org", "PREPRINT"),
        ("https://www.biorxiv.org", "www.biorxiv.org", "PREPRINT"),
        ("https://medrxiv.org", "medrxiv.org", "PREPRINT"),
        ("https://papers.ssrn.com", "papers.ssrn.com", "PREPRINT"),
        ("https://notarxiv.org", "notarxiv.org", "MEDIUM"),
        ("https://en.wikipedia.org/wiki/Tide", "en.wikipedia.org", "TERTIARY"),
        ("https://wikipedia.org", "wikipedia.org", "TERTIARY"),
        ("https://www.ipcc.org", "www.ipcc.org", "MEDIUM"),
        ("https://www.charity.org.uk/x", "www.charity.org.uk", "MEDIUM"),
        ("https://example.com/edu/", "example.com", "UNVERIFIED"),
        ("https://gov", "gov", "UNVERIFIED"),
        ("HTTPS://User:pw@WWW.Energy.GOV:8443/A", "www.energy.gov", "HIGH - government"),
        ("https://evil.com@www.energy.gov", "www.energy.gov", "HIGH - government"),
        ("https://www.energy.gov@evil.com/", "evil.com", "UNVERIFIED"),
        ("http://[2001:db8::1]:80/x", "[2001:db8::1]", "UNVERIFIED"),
        ("www.energy.gov/a", "<none>", "UNKNOWN"),
        ("https:///a", "<none>", "UNKNOWN"),
        ("", "<none>", "UNKNOWN"),
    ],
)
def test_a_source_is_rated_by_its_host(url: str, host: str, tier: str) -> None:
    rated = _module(AGENT / "tools.py")["classify_source"](url)

    assert rated.startswith(f"{host}: {tier}")


def _module(file: Path) -> dict[str, Any]:
    """What a file defines; it is a program of the agent, not a module of ours."""
    found: dict[str, Any] = {"__name__": file.stem, "__file__": str(file)}
    exec(compile(file.read_text(encoding="utf-8"), file, "exec"), found)
    return found
