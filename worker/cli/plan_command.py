"""One call of `sleipnir plan`."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from sleipnir.graphs.document.finding import Finding, folded
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.cli import sarif
from sleipnir.scheduler.cli.connect import search_of, settings_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.progress import Display, WorkerWatch
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.views.text.formatting import usd
from sleipnir.scheduler.views.text.terminal_output import printable
from sleipnir.worker.cli.plan_lines import PlanCall, PlannedLines
from sleipnir.worker.plan.document import InputPlan
from sleipnir.worker.plan.duration import Pace
from sleipnir.worker.plan.making import AgentPlan, planned_agent
from sleipnir.worker.plan.sample import LineSample
from sleipnir.worker.plan.sampling import Sampling
from sleipnir.worker.plan.table import lines_of, sample_lines


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """One call of the command; with a client, lines are run."""

    options: Options
    call: PlanCall
    client: Client | None

    def print(self) -> ExitCode:
        """Print the plan; return the exit code."""
        call, settings, search = self.call, settings_of(self.options), search_of(self.options)
        try:
            agent = planned_agent(settings, search, call.agent, self.client)
        except InvalidAgent as error:
            return self._print_invalid(error.findings)
        sample = None
        with Ledger() as ledger:
            lines = PlannedLines(self.options, call, agent.prepared, agent.directory, ledger)
            stored, is_economical = ledger.files.path_of, call.economy is not None
            found = agent.plan(lines.states(), stored, economy=is_economical)
            if self.client is not None:
                sample = self._sample(self.client, agent.prepared, lines, found.bounds)
                found = found.with_sample(sample)
        if call.sarif is not None:
            sarif.write(call.sarif, found.findings)
        time_s = self._time_s(agent.prepared, found.bounds, sample)
        if self.options.json:
            click.echo(json.dumps(found.to_json(sample, time_s), ensure_ascii=False))
        else:
            self._print_text(found, sample, time_s)
        return self._verdict(found.bounds, sample)

    def _sample(
        self, client: Client, prepared: PreparedAgent, lines: PlannedLines, found: InputPlan
    ) -> LineSample:
        call = self.call
        name = call.name or lines.default_name()
        with Display(self.options, name) as display:
            taking = Sampling(
                client,
                prepared,
                name,
                lines.defaults(),
                call.sample or 0,
                call.seed,
                WorkerWatch(client, self.options, display.update),
            )
            return taking.take(lines.ledger, found.strata)

    def _time_s(
        self, prepared: PreparedAgent, found: InputPlan, sample: LineSample | None
    ) -> float | None:
        if self.client is None or sample is None or not sample.lines:
            return None
        if self.call.economy is not None:
            return self.call.economy
        settings = self.client.store.settings
        slots = Machines(self.client.store.client).slots() or settings.concurrency
        pace = Pace(settings.models, settings.model, slots)
        return round(pace.seconds(prepared.graph, sample, found.lines), 1)

    def _print_invalid(self, findings: Sequence[Finding]) -> ExitCode:
        if self.call.sarif is not None:
            sarif.write(self.call.sarif, findings)
        if self.options.json:
            errors = [finding.to_json() for finding in findings]
            click.echo(json.dumps({"findings": errors}, ensure_ascii=False))
        else:
            for finding in folded(findings):
                click.echo(str(finding), err=True)
        return ExitCode.INVALID

    def _print_text(
        self, found: AgentPlan, sample: LineSample | None, time_s: float | None
    ) -> None:
        for line in lines_of(found.bounds, sample):
            click.echo(line, err=self.call.aside)
        if sample is not None:
            for line in ("", *sample_lines(found.bounds, sample, time_s)):
                click.echo(line, err=self.call.aside)
        for finding in folded(found.findings):
            self.options.say(str(finding))
        for model in found.unpriced:
            self.options.say(
                f"the price of {printable(model)} is not known; add it to config.yaml:\n"
                f'  models: {{prices: {{"{printable(model)}": {{prompt: USD, completion: USD}}}}}}'
            )

    def _verdict(self, found: InputPlan, sample: LineSample | None) -> ExitCode:
        budget = self.call.budget
        if budget is None:
            return ExitCode.SUCCEEDED
        if not found.total.is_priced:
            self.options.say("whether the budget is enough is not known, as a price is not")
            return ExitCode.FAILED
        needed, word = found.total.usd.least, "at least"
        if sample is not None and sample.lines:
            expected = found.estimates(sample)["usd"]
            needed, word = expected.high or expected.expected, "up to"
        if budget < needed:
            self.options.say(f"the budget is not enough: this may cost {word} {usd(needed)}")
            return ExitCode.FAILED
        return ExitCode.SUCCEEDED
