"""`sleipnir inbox`: what people are asked."""

from __future__ import annotations

import click

from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options


@click.command
@common_options(json=True)
def inbox(options: Options) -> None:
    """List every open question, oldest first."""
    with open_client(options, workers=False) as client:
        questions, now_ms = client.records.inbox(), client.records.now_ms()
    # They need what the client has loaded by now.
    from sleipnir.scheduler.cli.formatting import age, columns, first_line  # noqa: PLC0415
    from sleipnir.scheduler.cli.run_result import print_json  # noqa: PLC0415
    from sleipnir.scheduler.views.documents import question_document  # noqa: PLC0415

    if options.json:
        for question in questions:
            print_json(question_document(question))
        return
    if not questions:
        options.say("no open questions")
        return
    rows = [
        (
            question.run_id,
            question.agent,
            question.place,
            age((now_ms - question.asked_at) / 1000),
            first_line(question.text),
            first_line(" | ".join(question.options) or (question.default or "")),
        )
        for question in questions
    ]
    for line in columns(("RUN", "AGENT", "NODE", "AGE", "QUESTION", "OPTIONS"), rows):
        click.echo(line)
    options.say("answer one with: sleipnir answer RUN TEXT")
