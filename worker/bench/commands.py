"""What commands cost beside the import of the libraries they cannot do without."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from sleipnir.worker.bench.rows import Row, Sample, interleaved, row

_MODEL = "\nclass Model(pydantic.BaseModel):\n    number: int"


def command_rows(agent: str, environment: Mapping[str, str], rounds: int) -> Iterator[Row]:
    """Of each command the CPU, and its ratio to that of a bare import, in turns.

    Args:
        agent: a directory.
        environment: leads to an engine that is up.
    """
    bare = {
        "import click": "import click",
        "import click, redis": "import click, redis",
        "import click, yaml, pydantic": f"import click, yaml, pydantic{_MODEL}",
        "import click, redis, pydantic": f"import click, redis, pydantic{_MODEL}",
    }
    commands = {
        "--help": (["--help"], "import click"),
        "ps": (["ps"], "import click, redis"),
        "inbox": (["inbox"], "import click, redis"),
        "validate": (["validate", agent], "import click, yaml, pydantic"),
        "run -q, engine up": (["run", agent, "-q"], "import click, redis, pydantic"),
    }
    contenders = {name: [sys.executable, "-P", "-c", code] for name, code in bare.items()} | {
        name: [sys.executable, "-P", "-m", "sleipnir", *arguments]
        for name, (arguments, _) in commands.items()
    }
    samples = interleaved(
        rounds,
        {name: partial(_cpu_of, command, environment) for name, command in contenders.items()},
    )
    for name in bare:
        yield row(name, "process", 1, samples[name], samples[name])
    for name, (_, base) in commands.items():
        yield row(name, "process", 1, samples[name], samples[base])


def _cpu_of(command: Sequence[str], environment: Mapping[str, str]) -> Sample:
    """CPU seconds in the place of seconds too: a busy machine changes only those."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Sample(cpu, cpu)
