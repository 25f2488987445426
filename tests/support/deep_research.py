"""Scripted models and web pages for `deep-research`: one invented investigation.

All sources are invented, on the reserved domain `.example`. Tools and scripts reach them through a
`WebServer` as their proxy: `http_proxy`, with `no_proxy` for the model server.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sleipnir.records import dataclass
from tests.support.conversations import turn_of
from tests.support.model_server import ModelServer, Reply, Request, calls, says
from tests.support.web_server import Page, WebServer

TOPIC = "Do small tidal turbines pay for themselves in harbours?"
PASS = "VERDICT: PASS\nFEEDBACK: none"
REVISE = (
    "VERDICT: REVISE\n"
    "FEEDBACK: 1. What speaks against turbines rests on one organisation; look for measured "
    "maintenance costs."
)
PLAN = (
    "Settle first how much current a turbine needs and whether harbours have it, then what was "
    "measured over whole years, then what speaks against it. Authoritative are hydrographic "
    "offices, measured yields of test sites, and port authorities' accounts."
)


@dataclass(frozen=True)
class Source:
    """An invented page, and the claim that it supports."""

    url: str
    title: str
    claim: str

    @property
    def page(self) -> Page:
        return Page(f"<html><h1>{self.title}</h1><p>{self.claim}</p></html>")

    @property
    def finding(self) -> str:
        return f"{self.claim} ({self.url})"


@dataclass(frozen=True)
class Question:
    """A planned question, and where its answer is found."""

    text: str
    source: Source
    later: Source | None = None  # what a second pass finds in addition


QUESTIONS = (
    Question(
        "What current speed, in m/s, does a tidal turbine below 100 kW need to generate "
        "electricity, and how common is it in harbours?",
        Source(
            "http://tides.gov.example/currents",
            "Tidal currents in harbours",
            "Turbines below 100 kW start at 1.0 m/s and need 2.0 m/s for half of their rated "
            "power; 14 of 120 surveyed harbours reach 2.0 m/s at spring tide.",
        ),
    ),
    Question(
        "How many MWh a year did tidal turbines below 100 kW in harbours deliver, as measured "
        "over at least one whole year?",
        Source(
            "http://harbour-lab.ac.example/yields",
            "Three years at a harbour mouth",
            "A 50 kW turbine at a harbour mouth delivered 71 MWh a year on average over three "
            "years, a capacity factor of 16 %.",
        ),
    ),
    Question(
        "Which measured evidence speaks against small tidal turbines in harbours, such as fouling, "
        "maintenance costs or harm to fish?",
        Source(
            "http://www.river-watch.org.example/fouling",
            "What grows on blades",
            "Fouling cut the output of two harbour turbines by a fifth within eight months.",
        ),
        Source(
            "http://port.gov.example/accounts",
            "Accounts of the port authority",
            "Maintenance of one 50 kW turbine cost 9,400 euros a year, half of it for divers.",
        ),
    ),
)
SOURCES = tuple(
    source for question in QUESTIONS for source in (question.source, question.later) if source
)
ASSESSMENT = """\
## Strong
- 2.0 m/s for half of the rated power, 14 of 120 harbours (http://tides.gov.example/currents, HIGH)
- 71 MWh a year from 50 kW (http://harbour-lab.ac.example/yields, HIGH)

## Needs corroboration
- Fouling cuts output by a fifth (http://www.river-watch.org.example/fouling, MEDIUM)

## Unsupported
none"""
LATER_ASSESSMENT = ASSESSMENT.replace(
    "\n\n## Needs",
    "\n- Maintenance of 9,400 euros a year (http://port.gov.example/accounts, HIGH)\n\n## Needs",
)
REPORT = """\
# Small tidal turbines in harbours

## Summary
They can pay in the few harbours with strong currents, and hardly anywhere else. The yields were \
measured; the costs rest on one port.

## Current decides
Half of the rated power needs 2.0 m/s, which 14 of 120 surveyed harbours reach at spring tide \
(http://tides.gov.example/currents). At one harbour mouth 50 kW delivered 71 MWh a year \
(http://harbour-lab.ac.example/yields).

## What it costs to keep
Divers are half of 9,400 euros of maintenance a year (http://port.gov.example/accounts).

## Open questions and disagreements
That fouling takes a fifth of the output within eight months is said by one organisation alone \
(http://www.river-watch.org.example/fouling)."""


def pages() -> dict[str, Page]:
    """Return the pages by URL, as a proxy is asked for them."""
    return {source.url: source.page for source in SOURCES}


def environment(web: WebServer) -> dict[str, str]:
    """Return variables for a worker whose tools and scripts see only these pages."""
    return {"http_proxy": web.url(), "no_proxy": "127.0.0.1,localhost"}


def play(server: ModelServer, *verdicts: str, questions: Sequence[Question] = QUESTIONS) -> None:
    """Script all models of the investigation; the last verdict is repeated."""
    plan = {"research_plan": PLAN, "questions": [question.text for question in questions]}
    server.when("You plan research", says(json.dumps(plan)))
    for question in questions:
        _play_question(server, question)
    first = [question.source for question in questions]
    later = [question.later for question in questions if question.later]
    for source in later:
        found = ("You judge sources", source.finding)
        _on_turn(server, found, 1, _classifications([*first, *later]))
        _on_turn(server, found, 2, says(LATER_ASSESSMENT))
    _on_turn(server, "You judge sources", 1, _classifications(first))
    _on_turn(server, "You judge sources", 2, says(ASSESSMENT))
    server.when("You are a strict reviewer", *map(says, verdicts or (PASS,)))
    server.when("You are a research editor", says(REPORT))


def prompts(server: ModelServer, question: Question) -> list[str]:
    """Return the prompts of a question's researcher, one per pass."""
    return [
        request.prompt
        for request in server.requests
        if turn_of(request) == 1 and f"Question: {question.text}" in request.text
    ]


def _play_question(server: ModelServer, question: Question) -> None:
    """Open the source and report what it says; on a second pass also another one, if any."""
    asked = f"Question: {question.text}"
    if question.later is not None:
        second = (asked, "VERDICT: REVISE")
        _on_turn(server, second, 1, calls(("fetch_url_via_curl", {"url": question.later.url})))
        both = f"{question.source.finding} {question.later.finding}"
        _on_turn(server, second, 2, says(both))
    opened = calls(("fetch_url_via_curl", {"url": question.source.url}))
    _on_turn(server, asked, 1, opened)
    _on_turn(server, asked, 2, says(question.source.finding))


def _classifications(sources: Sequence[Source]) -> Reply:
    return calls(*(("classify_source", {"url": source.url}) for source in sources))


def _on_turn(server: ModelServer, texts: str | tuple[str, ...], turn: int, reply: Reply) -> None:
    wanted = (texts,) if isinstance(texts, str) else texts

    def matches(request: Request) -> bool:
        return turn_of(request) == turn and all(text in request.text for text in wanted)

    server.when(matches, reply)
