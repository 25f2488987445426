"""`sleipnir answer`: answer a run's question."""

from __future__ import annotations

import json

import click

from sleipnir.scheduler.cli.arguments import complete_asking_nodes, run_argument
from sleipnir.scheduler.cli.connect import open_client, say_who_goes_on
from sleipnir.scheduler.cli.many import audit
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.prompts import ask
from sleipnir.scheduler.cli.terminal import is_terminal
from sleipnir.scheduler.config.user import user_name


@click.command
@run_argument
@click.argument("text", required=False)
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=complete_asking_nodes,
    help="Which question to answer, if there are several: a node, or MAP/INDEX.",
)
@common_options(json=True)
def answer(options: Options, run_id: str, text: str | None, node: str | None) -> None:
    """Answer RUN's question, or that of its child run, with TEXT.

    Without TEXT the question is asked on the terminal. The first answer wins.
    """
    if text is None and not is_terminal():
        raise click.UsageError("TEXT is required: there is no terminal to ask on")
    with open_client(options, workers=False) as client:
        question = client.open_question(client.queries.resolve(run_id), node)
        text = ask(question) if text is None else text
        client.answer(question.run_id, text, question.place, by=user_name(), via="cli")
        waited_s = client.queries.waited_s(question)
        audit.note(client, "answer", [question.question_id], detail=text, waited_s=waited_s)
        if options.json:
            found = {"run_id": question.run_id, "node": question.node}
            click.echo(json.dumps(found, ensure_ascii=False))
        options.say(f"answered '{question.node}' of run {question.run_id}")
        say_who_goes_on(client, options, question.root_run_id)
