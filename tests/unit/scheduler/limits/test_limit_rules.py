"""Which limits and budgets apply: the configuration under what was changed while running."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.errors import SettingInvalid
from sleipnir.scheduler.limits.records import call_of, owner_of, visit_of
from sleipnir.scheduler.limits.rules import Limit, Rules, parse_change, parse_place
from tests.support.settings import model_settings_of

SETTINGS = model_settings_of(
    {
        "providers": {"openai": {"requests_per_minute": 500, "concurrency": 50}},
        "limits": {"openai:gpt-4o": {"tokens_per_minute": 1000}},
        "budgets": {"day": {"usd": 5, "on_excess": "pause"}},
    }
)


def test_limits_of_the_provider_and_of_the_model_apply() -> None:
    assert Rules(SETTINGS, {}).limits("openai:gpt-4o") == (
        Limit("openai", requests_per_minute=500, concurrency=50),
        Limit("openai:gpt-4o", tokens_per_minute=1000),
    )
    assert Rules(SETTINGS, {}).limits("anthropic:any") == ()


def test_a_live_change_goes_before_the_configuration() -> None:
    changes = {"openai.concurrency": "3", "openai:gpt-4.1.tokens_per_minute": "70"}

    rules = Rules(SETTINGS, changes)

    assert rules.limit("openai").concurrency == 3
    assert rules.limit("openai:gpt-4.1").tokens_per_minute == 70
    assert rules.origin("openai", "concurrency") == "command"
    assert rules.origin("openai", "requests_per_minute") == "configuration"


def test_a_live_change_can_lift_a_limit() -> None:
    rules = Rules(SETTINGS, {"openai:gpt-4o.tokens_per_minute": "none"})

    assert [limit.name for limit in rules.limits("openai:gpt-4o")] == ["openai"]


def test_a_budget_can_be_set_live() -> None:
    rules = Rules(SETTINGS, {"day.usd": "7.5", "run.tokens": "100"})

    budgets = [(each.scope, each.usd, each.tokens, each.on_excess) for each in rules.budgets]
    assert budgets == [("run", None, 100, "fail"), ("day", 7.5, None, "pause")]


def test_a_name_that_a_command_paused_is_listed() -> None:
    rules = Rules(SETTINGS, {"groq.paused": "maintenance"})

    assert rules.paused == {"groq": "maintenance"}
    assert list(rules.limit_names()) == ["groq", "openai", "openai:gpt-4o"]


def test_a_change_names_its_setting_in_the_standard_form() -> None:
    assert parse_change("claude.concurrency=5", SETTINGS) == ("anthropic", "concurrency", "5")
    assert parse_place("openai:gpt-4.1.requests_per_minute", SETTINGS) == (
        "openai:gpt-4.1",
        "requests_per_minute",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("openai.concurrency", "write NAME.SETTING=VALUE"),
        ("nobody.concurrency=3", "'nobody' is neither a provider"),
        ("openai.usd=3", "the settings of openai are requests_per_minute, tokens_per_minute"),
        ("day.concurrency=3", "the settings of day are usd, tokens, on_excess"),
        ("openai.concurrency=0", "openai.concurrency=0: expected at least 1"),
        ("run.on_excess=stop", "run.on_excess=stop: expected 'fail' or 'pause'"),
    ],
)
def test_a_change_that_cannot_be_made_says_why(text: str, message: str) -> None:
    with pytest.raises(SettingInvalid) as caught:
        parse_change(text, SETTINGS)

    assert message in str(caught.value)


def test_a_call_tells_its_run_and_visit() -> None:
    call = call_of("00aabbccddeeff00:3/each/17:2:1", "vertex_ai:m@2:x y")

    assert visit_of(call) == ("00aabbccddeeff00", "3/each/17")


def test_a_run_outside_a_batch_has_no_budget_of_one() -> None:
    assert owner_of("batch", "r", None) is None
    assert owner_of("batch", "r", "b") == "batch:b"
    assert owner_of("run", "r", "b") == "run:r"
