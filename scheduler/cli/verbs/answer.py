"""`sleipnir answer`: answer a run's question."""

from __future__ import annotations

import json

import click

from sleipnir.scheduler.cli.arguments import complete_asking_nodes, run_argument
from sleipnir.scheduler.cli.asking.answering import give
from sleipnir.scheduler.cli.connect import open_client, say_who_goes_on
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.prompts import ask
from sleipnir.scheduler.cli.terminal import is_terminal
from sleipnir.scheduler.runs.answers import require_named


@click.command
@run_argument
@click.argument("text", required=False)
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=complete_asking_nodes,
    help="Which question to answer, if there are several: a node, or MAP/INDEX.",
)
@click.option(
    "--question",
    "question_id",
    metavar="ID",
    help="The id of the question to answer, and no other. Consent to a guarded call requires it.",
)
@common_options(json=True)
def answer(
    options: Options,
    run_id: str,
    text: str | None,
    node: str | None,
    question_id: str | None,
) -> None:
    """Answer RUN's question, or that of its child run, with TEXT.

    Without TEXT the question is asked on the terminal. The first answer wins.
    """
    if text is None and not is_terminal():
        raise click.UsageError("TEXT is required: there is no terminal to ask on")
    with open_client(options, workers=False) as client:
        run_id = client.queries.resolve(run_id)
        question = client.open_question(run_id, node, question_id=question_id)
        if text is None:
            text = ask(question)
        else:
            require_named(question, question_id)
        give(client, question, text)
        if options.json:
            found = {"run_id": question.run_id, "node": question.node}
            click.echo(json.dumps(found, ensure_ascii=False))
        options.say(f"answered '{question.node}' of run {question.run_id}")
        say_who_goes_on(client, options, question.root_run_id)
