"""What commands cost, compared with importing the libraries that they use."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.events import QuestionAsked
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.bench.rows import Row, Sample, interleaved, row, warm_ups

_MODEL = "\nclass Model(pydantic.BaseModel):\n    number: int"
_BARE: Mapping[str, str] = {
    "import click": "import click",
    "import click, redis": "import click, redis",
    "import click, yaml, pydantic": f"import click, yaml, pydantic{_MODEL}",
    "import click, redis, pydantic": f"import click, redis, pydantic{_MODEL}",
}
COMMAND = (sys.executable, "-P", "-m", "sleipnir")


def command_rows(client: Client, environment: Mapping[str, str], rounds: int) -> Iterator[Row]:
    """Measure each command's CPU time, and its ratio to a bare import measured alternately.

    Args:
        client: of an engine that is up, with the agents `ending` and `asking`.
        environment: in which commands find that engine.
    """
    agent = str(client.search.find("ending"))
    ended = client.wait(client.submit(client.prepare("ending"), Request())).run_id
    questions = iter(_ask(client, rounds + warm_ups(rounds)))
    # Name → arguments, or the line to complete; and the import it is compared with.
    commands = {
        "--help": (["--help"], "import click"),
        "completion of a verb": ("sleipnir sh", "import click"),
        "completion of an agent": (f"sleipnir run {agent}", "import click"),
        "ps": (["ps"], "import click, redis"),
        "show": (["show", ended], "import click, redis"),
        "inbox": (["inbox"], "import click, redis"),
        "answer": (["answer"], "import click, redis"),
        "completion of a run": (f"sleipnir show {ended[:3]}", "import click, redis"),
        "validate": (["validate", agent], "import click, yaml, pydantic"),
        "run -q, engine up": (["run", agent, "-q"], "import click, redis, pydantic"),
    }

    def call(given: Sequence[str] | str) -> Sample:
        if isinstance(given, str):
            return _cpu_of(COMMAND, {**environment, **_completing(given)})
        more = [next(questions), "an answer"] if given == ["answer"] else []
        return _cpu_of([*COMMAND, *given, *more], environment)

    contenders = {
        name: partial(_cpu_of, [sys.executable, "-P", "-c", code], environment)
        for name, code in _BARE.items()
    } | {name: partial(call, given) for name, (given, _) in commands.items()}
    samples = interleaved(rounds, contenders)
    for name in _BARE:
        yield row(name, "process", 1, samples[name], samples[name])
    for name, (_, base) in commands.items():
        yield row(name, "process", 1, samples[name], samples[base])


def _ask(client: Client, count: int) -> list[str]:
    """Start runs and wait until they ask; return their ids."""
    agent = client.prepare("asking")
    run_ids = [client.submit(agent, Request()) for _ in range(count)]
    for run_id in run_ids:
        next(e for e in client.queries.follow(run_id) if isinstance(e.event, QuestionAsked))
    return run_ids


def _completing(line: str) -> dict[str, str]:
    """Return the environment in which a shell asks to complete the last word of a line."""
    last = str(len(line.split()) - 1)
    return {"_SLEIPNIR_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": last}


def _cpu_of(command: Sequence[str], environment: Mapping[str, str]) -> Sample:
    """Measure a command by CPU time alone, as a busy machine would distort wall time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Sample(cpu, cpu)
