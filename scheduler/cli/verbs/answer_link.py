"""`sleipnir answer-link`: a link with which somebody without an account answers."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_asking_nodes, complete_runs
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.cli.many import audit
    from sleipnir.scheduler.client.inbound import answer_links
    from sleipnir.scheduler.views import questions


@click.command
@click.argument("run_id", metavar="RUN", shell_complete=complete_runs)
@click.option(
    "--for",
    "recipient",
    required=True,
    metavar="NAME",
    help="Who gets the link, as the run and the audit log will name who has answered. A new link "
    "for the same NAME replaces the earlier one.",
)
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=complete_asking_nodes,
    help="Which question, if there are several: a node, or MAP/INDEX.",
)
@click.option("--question", "question_id", metavar="ID", help="The id of the question.")
@common_options(json=True)
def answer_link(
    options: Options, run_id: str, recipient: str, node: str | None, question_id: str | None
) -> None:
    """Print a link with which somebody answers RUN's question without an account.

    Whoever has the link can answer that one question, once, on a page of the monitor. It is good as
    long as the question, and for a week at most. The setting `monitor_public_url` says where the
    monitor is.
    """
    with open_client(options, workers=False) as client:
        run_id = client.queries.resolve(run_id)
        question = client.open_question(run_id, node, question_id=question_id)
        link = answer_links.make_answer_link(client, question, recipient)
        audit.note(client, "answer-link", [question.question_id], detail=f"for {recipient}")
        if options.json:
            run_result.print_json(questions.answer_link_document(question, link, recipient))
        else:
            click.echo(link.url)
