"""Budgets of real batches: never exceeded, nearly used up, and paid once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, Reply, Request

GRAPH = """
model: openai:long-winded
start: ask
nodes:
  ask: {type: llm, prompt: "{{initial_prompt}}", fallback: done, next: again}
  again: {type: llm, prompt: "Again: {{initial_prompt}}", fallback: done, next: done}
  done: {type: end, output: "Because."}
"""
LONGEST = 128_000  # tokens of a reply, which cost 1.28 USD
CONFIG = f"""
models:
  prices: {{"openai:long-winded": {{prompt: 1.0, completion: 10.0}}}}
  max_output_tokens: {LONGEST}
"""
BUDGET_USD = 0.50
LINES = 200


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("delay_s", [0.0, 1.0])
def test_a_batch_uses_most_of_its_budget_and_no_more(delay_s: float, tmp_path: Path) -> None:
    billed_usd: list[float] = []

    def answer(request: Request) -> Reply:
        most = request.body.get("max_completion_tokens", LONGEST)
        tokens = min(800 + 7 * len(billed_usd), most)
        billed_usd.append((10 * 1.0 + tokens * 10.0) / 1e6)
        return Reply(text="So.", prompt_tokens=10, completion_tokens=tokens, delay_s=delay_s)

    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text(CONFIG)
    (tmp_path / "in.txt").write_text("".join(f"Why {number}?\n" for number in range(LINES)))
    with ModelServer() as server:
        server.when(lambda _: True, answer)
        sleipnir = Sleipnir(
            tmp_path, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-only-for-this-test"
        )
        sleipnir.write("asks", GRAPH)
        batch = ("batch", "asks", str(tmp_path / "in.txt"), "--name", "b", "-q", "--budget")
        with sleipnir.up():
            first = sleipnir(*batch, str(BUDGET_USD))
            spent_usd, made = sum(billed_usd), len(billed_usd)
            again = sleipnir(*batch, "100", "--retry-failed")

    ends = [json.loads(line) for line in first.stdout.splitlines()]
    assert first.returncode == 1, first.stderr
    assert 0.8 * BUDGET_USD <= spent_usd <= BUDGET_USD
    good = [end for end in ends if end["status"] == "succeeded"]
    assert {end["error"]["code"] for end in ends if end not in good} <= {"R025"}
    assert 2 * len(good) <= made < 2 * LINES
    assert again.returncode == 0, again.stderr
    assert len(billed_usd) == 2 * LINES
