"""`sleipnir inbox`: what people are asked."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import formatting, run_result
    from sleipnir.scheduler.views import documents


@click.command
@common_options(json=True)
def inbox(options: Options) -> None:
    """List every open question, oldest first."""
    with open_client(options, workers=False) as client:
        questions, now_ms = client.queries.inbox(), client.queries.now_ms()

    if options.json:
        for question in questions:
            run_result.print_json(documents.question_document(question))
        return
    if not questions:
        options.say("no open questions")
        return
    rows = [
        (
            question.run_id,
            question.agent,
            question.place,
            formatting.age((now_ms - question.asked_at) / 1000),
            formatting.first_line(question.text),
            formatting.first_line(" | ".join(question.options) or (question.default or "")),
        )
        for question in questions
    ]
    for line in formatting.columns(("RUN", "AGENT", "NODE", "AGE", "QUESTION", "OPTIONS"), rows):
        click.echo(line)
    options.say("answer one with: sleipnir answer RUN TEXT")
