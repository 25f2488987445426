"""`sleipnir answer`: answer a run's question."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import (
    complete_asking_nodes,
    complete_batches,
    complete_runs,
)
from sleipnir.scheduler.cli.asking.answering import give, other_than_offered
from sleipnir.scheduler.cli.connect import hint_missing_process, open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.prompts import ask
from sleipnir.scheduler.cli.terminal import is_terminal
from sleipnir.scheduler.runs.answers import require_named

with lazy_imports():
    from sleipnir.scheduler.cli.many import answers


@click.command
@click.argument("run_id", metavar="[RUN]", required=False, shell_complete=complete_runs)
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
@click.option(
    "--batch",
    metavar="BATCH",
    shell_complete=complete_batches,
    help="Without RUN: answer all open questions of NODE in this batch with TEXT.",
)
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Answer from a CSV file with a column `answer`, and `question_id`, `run_id` (with `node` "
    "if a run asks several), or, with --batch, `item`.",
)
@click.option("--yes", is_flag=True, help="With --batch or --from: do not ask.")
@common_options(json=True)
def answer(
    options: Options,
    run_id: str | None,
    text: str | None,
    node: str | None,
    question_id: str | None,
    batch: str | None,
    file: Path | None,
    yes: bool,
) -> ExitCode | None:
    """Answer RUN's question, or that of its child run, with TEXT.

    Without TEXT the question is asked on the terminal. The first answer wins. With --batch or
    --from, many questions are answered, once a summary of what will happen is confirmed; exits with
    1 if some were not answered.
    """
    if batch is not None or file is not None:
        return _answer_many(options, (run_id, text, question_id), node, batch, file, yes=yes)
    if run_id is None:
        raise click.UsageError("RUN is required, or --batch, or --from")
    if text is None and not is_terminal():
        raise click.UsageError("TEXT is required: there is no terminal to ask on")
    with open_client(options, workers=False) as client:
        run_id = client.queries.resolve(run_id)
        question = client.open_question(run_id, node, question_id=question_id)
        if text is None:
            text = ask(question)
        else:
            require_named(question, question_id)
        text = give(client, question, text)
        if options.json:
            found = {"run_id": question.run_id, "node": question.node}
            click.echo(json.dumps(found, ensure_ascii=False))
        options.say(f"answered '{question.node}' of run {question.run_id}")
        if other := other_than_offered(client, question, text):
            options.say(other)
        hint_missing_process(client, options, question.root_run_id)
    return None


def _answer_many(
    options: Options,
    words: tuple[str | None, ...],
    node: str | None,
    batch: str | None,
    file: Path | None,
    *,
    yes: bool,
) -> ExitCode:
    given = [word for word in words if word is not None]
    if file is not None and given:
        raise click.UsageError("--from has the answers: leave out RUN, TEXT and --question")
    if file is None and (len(given) != 1 or node is None):
        raise click.UsageError("--batch takes --node NODE and one TEXT, and no RUN")
    with open_client(options, workers=False) as client:
        if file is not None:
            found = answers.from_file(client, file, batch, node)
        else:
            found = answers.same_for_all(client, batch or "", node or "", given[0])
        answered = answers.send(client, options, found, is_sure=yes)
    if options.json:
        click.echo(json.dumps({"answered": answered, "problems": list(found.problems)}))
    is_all = found.given and answered == len(found.given) and not found.problems
    return ExitCode.SUCCEEDED if is_all else ExitCode.FAILED
