"""The OpenAPI document tells of every operation there is; answers are held to it in all tests."""

from __future__ import annotations

import re

import pytest

from sleipnir.worker.monitor.routes import ROUTES
from tests.support.api_answers import check_answer, operation_of
from tests.support.site import ServedSite


def test_every_address_of_the_api_is_told_and_no_other(site: ServedSite) -> None:
    document = site.ask("/api/v1/openapi.json").json
    routes = [route for route in ROUTES if route.path.startswith("/api/v1/")]
    told = {
        (method.upper(), re.sub(r"\{\w+\}", "0123456789abcdef", path.replace("{step}", "1")))
        for path, operations in document["paths"].items()
        for method in operations
    }

    def routes_of(method: str, place: str) -> list[str]:
        places = (place, place.replace("0123456789abcdef", "cancel"))
        return [
            route.path
            for route in routes
            if method in route.needs and any(re.fullmatch(route.pattern, each) for each in places)
        ]

    without = {place for place in told if not routes_of(*place)}
    reached = {path for place in told for path in routes_of(*place)}

    assert document["openapi"] == "3.1.0"
    assert without == set()
    assert {route.path for route in routes} - reached == set()


def test_an_answer_with_a_field_that_is_not_told_is_noticed() -> None:
    me = '{"name": "a", "role": "read", "via": "link"}'

    check_answer("GET", "/api/v1/me", 200, "application/json", me)
    with pytest.raises(AssertionError, match="other"):
        check_answer("GET", "/api/v1/me", 200, "application/json", me[:-1] + ', "other": 1}')
    with pytest.raises(AssertionError, match="may not answer 202"):
        check_answer("GET", "/api/v1/me", 202, "application/json", me)

    assert operation_of("GET", "/api/v1/questions/0123456789abcdef/1/a/answer") is None
