"""Examples of all verbs and subcommands, for `--help`, `sleipnir help` and the documentation."""

from __future__ import annotations

from collections.abc import Mapping

import click

# Purpose, and what to type after `sleipnir`; the simplest useful call comes first.
EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "run": (
        ("Run an agent, follow its progress, get its result", "run log-digest sample"),
        ("Print only the result, for text from stdin", "run -q ./my-agent - < question.txt"),
        ("With files, the files of a directory, a page", "run review Compare -f a.md -f notes/"),
        ("Set initial state, and answer in advance", "run review --set rounds=3 --answer ok=yes"),
    ),
    "chat": (
        ("Talk to an agent; .help lists commands, .exit leaves", "chat helper"),
        ("Continue a conversation another day", "chat helper --session garden"),
        ("Messages from a file, one per line", "chat helper < questions.txt"),
    ),
    "submit": (
        ("Start a run in the background; prints its id", "submit log-digest sample"),
        ("Labels to find it by", "submit review 'the report' --label customer=acme"),
    ),
    "batch": (
        ("One run per line; repeat it to resume", "batch review lines.jsonl -o results.jsonl"),
        ("A table in, a table out", "batch review people.csv --with-input -o results.csv"),
        ("Continue failed lines where they stopped", "batch review lines.jsonl --retry-failed"),
        (
            "Run some finished lines again",
            "batch review lines.jsonl --redo 'status != \"succeeded\"'",
        ),
        ("How many lines ended how", "batch --status review-lines-1a2b3c4d --count status"),
    ),
    "batches": (
        ("Batches with their progress", "batches"),
        ("For a program", "batches --limit 100 --json"),
    ),
    "mcp": (
        ("For a client that starts its servers itself", "mcp serve --agent research"),
        ("All agents whose names match", "mcp serve --agent 'support-*'"),
    ),
    "mcp serve": (
        ("As the command of a server in a client's configuration", "mcp serve --agent research"),
        ("Several agents, on a team's Redis", "mcp serve --agent research --agent 'support-*'"),
    ),
    "schedule": (
        ("Schedules, those that fire next first", "schedule list"),
        ("Every weekday at nine", "schedule create news digest --cron '0 9 * * 1-5'"),
    ),
    "schedule create": (
        (
            "Every weekday at nine, by the clocks of Berlin",
            "schedule create news digest --cron '0 9 * * 1-5' --timezone Europe/Berlin",
        ),
        ("Every quarter of an hour", "schedule create poll inbox-triage --every 15m"),
    ),
    "schedule list": (
        ("Schedules, those that fire next first", "schedule list"),
        ("For a program", "schedule list --json"),
    ),
    "schedule show": (
        ("Its next instants and its last run", "schedule show news"),
        ("For a program", "schedule show news --json"),
    ),
    "schedule edit": (
        ("Fire an hour later", "schedule edit news --cron '0 10 * * 1-5'"),
        ("Use the agent's files as they are now", "schedule edit news --agent digest"),
    ),
    "schedule pause": (
        ("Until it is resumed", "schedule pause news --reason holidays"),
        ("For a program", "schedule pause news --json"),
    ),
    "schedule resume": (
        ("Fire again, from now on", "schedule resume news"),
        ("For a program", "schedule resume news --json"),
    ),
    "schedule trigger": (
        ("Start a run now", "schedule trigger news"),
        ("For a program", "schedule trigger news --json"),
    ),
    "schedule backfill": (
        ("Runs for the instants of yesterday", "schedule backfill news --from 2d --to 1d"),
        (
            "One after the other",
            "schedule backfill news --from 7d --to 1m --overlap buffer-all",
        ),
    ),
    "schedule delete": (
        ("Remove it; its runs stay", "schedule delete news"),
        ("For a program", "schedule delete news --json"),
    ),
    "schedule apply": (
        ("As a file has them; others are deleted", "schedule apply schedules.yaml --prune"),
        ("Without a question", "schedule apply schedules.yaml --yes"),
    ),
    "stats": (
        ("How each day went", "stats"),
        ("By agent in this week", "stats --by agent --since 7d"),
        ("The hours of a batch", "stats --by hour --batch night"),
    ),
    "spend": (
        ("What each day has cost", "spend"),
        ("The dearest nodes of an agent this month", "spend --by node --agent review --since 30d"),
        ("For a spreadsheet", "spend --by day --by model --csv"),
    ),
    "dev": (
        ("Run an agent, then again after each save", "dev ./my-agent 'the report'"),
        ("Continue from its last run", "dev ./my-agent"),
    ),
    "ps": (
        ("The newest runs", "ps"),
        ("Runs that failed since yesterday", "ps --status failed --since 24h"),
        ("The same list by a name", "ps --status failed --since 24h --save-view broken"),
        ("That list again", "ps --view broken"),
    ),
    "find": (
        ("What is called like it", "find review"),
        ("The run of an item of a batch", "find order-10423"),
    ),
    "sessions": (
        ("Sessions, with the last run of each", "sessions"),
        ("Remove one", "sessions helper --remove garden"),
    ),
    "show": (
        ("Nodes, timings, cost, and why it failed", "show 82f1"),
        ("Only its output", "show 82f1 --json | jq -r .output"),
        ("Which items of a map failed", "show 82f1 --items each | grep failed"),
    ),
    "watch": (
        ("Follow a run to its end", "watch 82f1"),
        ("Replay it at ten times the speed", "watch 82f1 --replay --speed 10"),
    ),
    "logs": (
        ("What its scripts, tools and models printed", "logs 82f1"),
        ("The latest entries of one node", "logs 82f1 --node summarize --tail 5"),
        ("What models were sent and replied", "logs 82f1 --transcripts"),
        ("Follow new entries as well", "logs -f 82f1 --since 10m"),
    ),
    "state": (
        ("The current state", "state 82f1"),
        ("What each super-step changed", "state 82f1 --diff"),
    ),
    "inbox": (
        ("All open questions", "inbox"),
        ("Questions of one batch", "inbox --batch reviews"),
    ),
    "answer": (
        ("Answer at the terminal", "answer 82f1"),
        ("Answer one node's question", "answer 82f1 yes --node approve"),
    ),
    "answer-link": (
        ("A link for somebody without an account", "answer-link 82f1 --for ann@example.com"),
        ("To one node's question", "answer-link 82f1 --for ann@example.com --node approve"),
        ("Who has one", "answer-link 82f1"),
        ("It went to the wrong person", "answer-link 82f1 --for ann@example.com --revoke"),
    ),
    "cancel": (
        ("Cancel a run and its child runs", "cancel 82f1"),
        (
            "Cancel every run that waits for a person",
            "cancel $(sleipnir inbox --json | jq -r .run_id)",
        ),
    ),
    "retry": (
        ("Continue a run where it stopped", "retry 82f1"),
        ("Continue the failed runs of a batch", "retry --batch reviews --status failed --yes"),
    ),
    "drain": (
        ("Take a machine out of service", "drain gpu-1 --wait"),
        ("Have it take nodes again, if it has not ended", "drain gpu-1 --undo"),
    ),
    "move": (
        ("Let any machine take a run", "move 82f1 --machine any"),
        ("Give a run to another machine", "move 82f1 --machine desk"),
    ),
    "fork": (
        ("A new run from step 3 of another", "fork 82f1 --step 3 --wait"),
        ("With the agent as it is now", "fork 82f1 --step 3 --agent current"),
    ),
    "diff": (
        ("Where two runs diverge", "diff 82f1 93a0"),
        ("How they differed after a step", "diff 82f1 93a0 --step 3"),
    ),
    "limits": (
        ("Limits of model calls, with their use", "limits"),
        ("Change a limit while workers run", "limits --set openai.requests_per_minute=500"),
    ),
    "validate": (
        ("Every error and warning with its location", "validate ./my-agent"),
        ("Fail at warnings too, as in CI", "validate ./my-agent --strict"),
        ("Fail at queues that no worker serves", "validate ./my-agent --queues gpu,default"),
    ),
    "draw": (
        ("Draw a graph", "draw ./my-agent -o graph.svg"),
        ("Draw a run's progress", "draw --run 82f1 -o run.svg"),
    ),
    "agents": (
        ("All available agents", "agents"),
        ("Variables, nodes and tools of one agent", "agents log-digest"),
        ("What each agent has spent this week, dearest first", "agents --spent 7d"),
    ),
    "kb": (
        ("Build an agent's knowledge base", "kb build ./handbook"),
        ("See what a query finds", "kb query ./handbook search 'how long is the warranty?'"),
    ),
    "kb build": (
        ("For an agent with one knowledge base", "kb build ./handbook"),
        ("Rebuild whenever a file is saved", "kb build ./handbook search --watch"),
    ),
    "kb query": (
        ("See how each chunk was ranked", "kb query ./handbook search 'how long is the warranty?'"),
        ("For a program", "kb query ./handbook search warranty --top-k 20 --json"),
    ),
    "kb info": (
        ("What it was built from", "kb info ./handbook"),
        ("What has changed since", "kb info ./handbook search --json | jq .changed"),
    ),
    "kb rm": (
        ("Have the next run rebuild it", "kb rm ./handbook"),
        ("For an agent with several", "kb rm ./handbook search"),
    ),
    "tools": (
        ("List an agent's functions", "tools ./my-agent"),
        ("Call one manually", "tools ./my-agent word_count --arg text='a b c'"),
    ),
    "plan": (
        ("What one run does", "plan ./my-agent"),
        (
            "What a table costs, and whether 20 USD may be enough",
            "plan ./my-agent people.csv --budget 20",
        ),
    ),
    "eval": (
        ("Score an agent on its rows", "eval ./my-agent"),
        ("Against what was accepted, for CI", "eval ./my-agent --gate -o results"),
        ("Against the last commit", "eval ./my-agent --baseline git:HEAD"),
        ("Make an evaluation of labelled rows", "eval ./my-agent --init people.csv"),
    ),
    "init": (
        ("An agent that runs right away", "init hello"),
        ("One that calls a model", "init hello --template llm"),
        ("A copy of a shipped agent, to change it", "init my-research --from deep-research"),
    ),
    "import": (
        ("What would be imported, and what differs", "import ./theirs --dry-run"),
        ("Runs that another Redis had", "import runs ./moved"),
    ),
    "import agents": (
        ("What would be imported, and what differs", "import agents ./theirs --dry-run"),
        ("Import it", "import agents ./theirs"),
    ),
    "import runs": (
        ("Store them in this Redis", "import runs ./moved"),
        ("In another one", "import runs ./moved --redis redis://new:6379/0"),
    ),
    "export": (
        ("All that have ended", "export --all --to ./moved"),
        ("Those of another Redis", "export --all --to ./moved --redis redis://old:6379/0"),
    ),
    "schema": (
        ("For an editor", "schema -o graph.schema.json"),
        ("List the top-level fields", "schema | jq '.properties | keys'"),
    ),
    "test": (
        ("Run an agent's cases", "test ./my-agent"),
        ("Only some, until one fails", "test ./my-agent -k refund -x"),
    ),
    "worker": (
        ("Workers and a scheduler in one command", "worker --scheduler --redis redis://db:6379/0"),
        ("One process per core", "worker --processes 8 --redis redis://db:6379/0"),
    ),
    "scheduler": (
        ("Beside workers", "scheduler --redis redis://db:6379/0"),
        ("Say more", "scheduler -v --redis redis://db:6379/0"),
    ),
    "up": (
        ("The whole engine, until Ctrl-C", "up"),
        ("More workers, no monitor", "up --processes 4 --no-monitor"),
    ),
    "monitor": (
        ("The web UI for runs and workers", "monitor --redis redis://db:6379/0"),
        ("Reachable from other machines", "monitor --address 0.0.0.0 --basic-auth me:secret"),
        ("Open it in a browser", "monitor --open"),
        ("With several users", "monitor --address 0.0.0.0 --users users.txt"),
    ),
    "bench": (
        ("The cost of a node on this machine", "bench --only hop"),
        ("Everything, as JSON", "bench --json"),
        ("Search quality of knowledge bases", "bench rag --quality"),
    ),
    "prune": (
        ("Remove runs that ended over a week ago", "prune --older 7d"),
        ("Failed runs of one agent, without asking", "prune --status failed --agent triage --yes"),
    ),
    "archive": (
        ("How it stands", "archive status"),
        ("Read everything that is in it", "archive verify"),
    ),
    "archive status": (
        ("How it stands", "archive status"),
        ("For a program", "archive status --json"),
    ),
    "archive verify": (
        ("Read everything that is in it", "archive verify"),
        ("For a program", "archive verify --json"),
    ),
    "archive restore": (
        ("Bring a run back", "archive restore 3f2a9c"),
        ("One that Redis has forgotten", "archive restore 3f2a9c4b5d6e7f80"),
    ),
    "archive schema": (
        ("For a program that reads objects", "archive schema"),
        ("The same in a script", "archive schema -q"),
    ),
    "archive list": (
        ("What ended since yesterday", "archive list"),
        ("A month, for a program", "archive list --since 30d --limit 100000 --json"),
    ),
    "bench rag": (
        ("Speed of knowledge bases", "bench rag"),
        ("Search quality", "bench rag --quality"),
        ("With a larger knowledge base", "bench rag --chunks 100000 --json"),
    ),
    "trigger": (
        ("Issues of a repository", "trigger create issues triage --verify github"),
        ("What there is", "trigger list"),
    ),
    "trigger create": (
        (
            "Issues of a repository",
            "trigger create issues triage --verify github --prompt '{{body.issue.title}}'",
        ),
        (
            "A program that repeats its requests",
            "trigger create orders check --set order='{{body.id}}' --key '{{body.id}}'",
        ),
    ),
    "trigger list": (
        ("What there is", "trigger list"),
        ("For a program", "trigger list --json"),
    ),
    "trigger show": (
        ("What it starts, and who may", "trigger show issues"),
        ("For a program", "trigger show issues --json"),
    ),
    "trigger edit": (
        ("Make its runs those of a batch", "trigger edit issues --batch issues"),
        ("Another agent", "trigger edit issues --agent triage-v2"),
    ),
    "trigger rotate": (
        ("Both secrets are good for an hour", "trigger rotate issues --keep 1h"),
        ("The one before is known to others: at once", "trigger rotate issues --keep 0s"),
    ),
    "trigger delete": (
        ("Remove it", "trigger delete issues"),
        ("For a program", "trigger delete issues --json"),
    ),
    "hook": (
        ("Hooks, and how their deliveries go", "hook list"),
        ("Failures to another system", "hook create ops https://ops.example/in --event run.failed"),
    ),
    "hook create": (
        ("All ends of runs", "hook create ops https://ops.example/in"),
        (
            "Questions of one agent",
            "hook create ask https://ops.example/ask --event question.asked --agent review",
        ),
    ),
    "hook list": (
        ("Hooks, and how their deliveries go", "hook list"),
        ("For a program", "hook list --json"),
    ),
    "hook show": (
        ("What it is told of", "hook show ops"),
        ("For a program", "hook show ops --json"),
    ),
    "hook edit": (
        ("Failures only", "hook edit ops --event run.failed"),
        ("Send nothing for now", "hook edit ops --disable"),
    ),
    "hook rotate": (
        ("Both secrets sign for a day", "hook rotate ops"),
        ("The old one is known to others", "hook rotate ops --keep 0s"),
    ),
    "hook test": (
        ("See whether it works", "hook test ops"),
        ("For a program", "hook test ops --json"),
    ),
    "hook deliveries": (
        ("What was sent, and what was replied", "hook deliveries ops"),
        ("For a program", "hook deliveries ops --json"),
    ),
    "hook redeliver": (
        ("Once more", "hook redeliver ops evt_2f0c4f5b6d7e8f90a1b2c3d4e5f60718"),
        ("For a program", "hook redeliver ops evt_2f0c4f5b6d7e8f90a1b2c3d4e5f60718 --json"),
    ),
    "hook delete": (
        ("Remove it", "hook delete ops"),
        ("For a program", "hook delete ops --json"),
    ),
    "health": (
        ("Whether a worker lives that answers on this port", "health --address 127.0.0.1:8081"),
        ("Whether it takes messages", "health --ready --address 127.0.0.1:8081"),
    ),
    "doctor": (
        ("What is missing, and what to do", "doctor"),
        ("Check that stored runs are consistent", "doctor --verify"),
    ),
    "completion": (
        ("For bash, in ~/.bashrc", 'eval "$(sleipnir completion bash)"'),
        ("For fish", "completion fish > ~/.config/fish/completions/sleipnir.fish"),
    ),
    "help": (
        ("Help and examples of a verb", "help run"),
        ("Help of a subcommand", "help kb build"),
    ),
}


def lines_of(verb: str) -> list[str]:
    """Return the lines of a verb's examples."""
    return [line for what, call in EXAMPLES.get(verb, ()) for line in (f"# {what}", _typed(call))]


def add_to(command: click.Command, verb: str) -> None:
    """Add examples below the help of a command and its subcommands."""
    # \b keeps click from rewrapping the lines.
    command.epilog = "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines_of(verb))))
    if isinstance(command, click.Group):
        for name, part in command.commands.items():
            add_to(part, f"{verb} {name}")


def _typed(call: str) -> str:
    """Return an example as typed; those that are not plain calls contain the command itself."""
    return call if call.startswith("eval ") else f"sleipnir {call}"
