"""`sleipnir answer-link`: links with which somebody without an account answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from sleipnir.scheduler.views.text.tables import questions as question_table

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Question


@click.command
@click.argument("run_id", metavar="RUN", shell_complete=complete_runs)
@click.option(
    "--for",
    "recipient",
    metavar="NAME",
    help="Who gets the link, as the run and the audit log will name who has answered. A new link "
    "for the same NAME replaces the earlier one.",
)
@click.option("--revoke", is_flag=True, help="With --for: have NAME's link open nothing any more.")
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=complete_asking_nodes,
    help="Which question, if there are several: a node, or MAP/INDEX.",
)
@click.option("--question", "question_id", metavar="ID", help="The id of the question.")
@common_options(json=True)
def answer_link(
    options: Options,
    run_id: str,
    recipient: str | None,
    revoke: bool,
    node: str | None,
    question_id: str | None,
) -> None:
    """Print a link with which somebody answers RUN's question without an account.

    Whoever has the link can answer that one question, once, on a page of the monitor. It is good as
    long as the question, and for a week at most. The setting `monitor_public_url` says where the
    monitor is. Without --for, list for whom there are links.
    """
    if revoke and recipient is None:
        raise click.UsageError("--revoke needs --for NAME: whose link it is")
    with open_client(options, workers=False) as client:
        run_id = client.queries.resolve(run_id)
        if recipient is None:
            asked = client.open_questions(run_id)
            if node is not None or question_id is not None:
                asked = [client.open_question(run_id, node, question_id=question_id)]
            _list(client, options, asked)
            return
        question = client.open_question(run_id, node, question_id=question_id)
        if revoke:
            _revoke(client, options, question, recipient)
        else:
            _make(client, options, question, recipient)


def _make(client: Client, options: Options, question: Question, recipient: str) -> None:
    link = answer_links.make_answer_link(client, question, recipient)
    audit.note(client, "answer-link", [question.question_id], detail=f"for {recipient}")
    if options.json:
        run_result.print_json(questions.answer_link_document(question, link, recipient))
    else:
        click.echo(link.url)


def _revoke(client: Client, options: Options, question: Question, recipient: str) -> None:
    answer_links.revoke_answer_link(client, question, recipient)
    audit.note(client, "answer-link revoke", [question.question_id], detail=f"for {recipient}")
    if options.json:
        run_result.print_json(questions.revoked_link_document(question, recipient))
    else:
        options.say(f"the link for {recipient} opens nothing any more")


def _list(client: Client, options: Options, asked: list[Question]) -> None:
    found = [
        questions.known_link_document(link)
        for question in asked
        for link in answer_links.links_to(client, question)
    ]
    nothing = "no links; make one with: sleipnir answer-link RUN --for NAME"
    run_result.print_list(options, found, question_table.link_lines, nothing)
