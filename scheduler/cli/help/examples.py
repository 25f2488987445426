"""Examples of every verb and its parts, for its `--help`, `sleipnir help` and the documentation."""

from __future__ import annotations

from collections.abc import Mapping

import click

# What for, and what to type after `sleipnir`; the first is the simplest call that does something.
EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "run": (
        ("Run an agent, see what it does, get its result", "run log-digest sample"),
        ("Only the output, of a text that comes in", "run -q ./my-agent - < question.txt"),
        ("Start values, and an answer given ahead", "run review --set rounds=3 --answer ok=yes"),
    ),
    "chat": (
        ("Talk to an agent; .help lists commands, .exit leaves", "chat helper"),
        ("Go on with a conversation another day", "chat helper --session garden"),
        ("Messages from a file, a line each", "chat helper < questions.txt"),
    ),
    "submit": (
        ("Start a run and go on; its id is printed", "submit log-digest sample"),
        ("Labels to find it by", "submit review 'the report' --label customer=acme"),
    ),
    "batch": (
        ("One run a line; start it again to continue", "batch review lines.jsonl -o results.jsonl"),
        ("A table in, a table out", "batch review people.csv --with-input -o results.csv"),
        ("What failed goes on where it stopped", "batch review lines.jsonl --retry-failed"),
    ),
    "batches": (
        ("Batches, and how each stands", "batches"),
        ("For a program", "batches --limit 100 --json"),
    ),
    "dev": (
        ("Run an agent, and again after each save", "dev ./my-agent 'the report'"),
        ("Go on from its last run", "dev ./my-agent"),
    ),
    "ps": (
        ("The newest runs", "ps"),
        ("Which failed since yesterday", "ps --status failed --since 24h"),
    ),
    "sessions": (
        ("Conversations, and the last run of each", "sessions"),
        ("Forget one", "sessions helper --remove garden"),
    ),
    "show": (
        ("Nodes, times, cost, and why it failed", "show 82f1"),
        ("Its output alone", "show 82f1 --json | jq -r .output"),
        ("Which items of a map failed", "show 82f1 --items each | grep failed"),
    ),
    "watch": (
        ("Follow a run to its end", "watch 82f1"),
        ("See it once more, ten times as fast", "watch 82f1 --replay --speed 10"),
    ),
    "logs": (
        ("What its scripts, tools and models said", "logs 82f1"),
        ("The newest of one node", "logs 82f1 --node summarize --tail 5"),
        ("What models were sent and replied", "logs 82f1 --transcripts"),
        ("What comes from now on, too", "logs -f 82f1 --since 10m"),
    ),
    "state": (
        ("The state as it is now", "state 82f1"),
        ("What each super-step changed", "state 82f1 --diff"),
    ),
    "inbox": (
        ("What people are asked", "inbox"),
        ("Questions of one batch", "inbox --batch reviews"),
    ),
    "answer": (
        ("Be asked on the terminal", "answer 82f1"),
        ("Answer one node's question", "answer 82f1 yes --node approve"),
    ),
    "cancel": (
        ("Stop a run and its child runs", "cancel 82f1"),
        ("Stop what waits for a person", "cancel $(sleipnir inbox --json | jq -r .run_id)"),
    ),
    "retry": (
        ("Go on where a run stopped", "retry 82f1"),
        ("Let what failed of a batch go on", "retry --batch reviews --status failed --yes"),
    ),
    "fork": (
        ("Another run from where one was", "fork 82f1 --step 3 --wait"),
        ("With the agent as it is now", "fork 82f1 --step 3 --agent current"),
    ),
    "diff": (
        ("Where two runs part", "diff 82f1 93a0"),
        ("How they differed after a step", "diff 82f1 93a0 --step 3"),
    ),
    "limits": (
        ("What holds for model calls, and what is left", "limits"),
        ("Change a limit while workers run", "limits --set openai.rpm=500"),
    ),
    "validate": (
        ("Every error and warning with its place", "validate ./my-agent"),
        ("Fail at warnings too, as in CI", "validate ./my-agent --strict"),
    ),
    "draw": (
        ("A picture of a graph", "draw ./my-agent -o graph.svg"),
        ("How far a run has come", "draw --run 82f1 -o run.svg"),
    ),
    "agents": (
        ("Which agents can be named", "agents"),
        ("Variables, nodes and tools of one", "agents log-digest"),
    ),
    "kb": (
        ("Build what an agent's rag node searches", "kb build ./handbook"),
        ("See what a question finds", "kb query ./handbook search 'how long is the warranty?'"),
    ),
    "kb build": (
        ("Of an agent with one knowledge base", "kb build ./handbook"),
        ("Again whenever a file is saved", "kb build ./handbook search --watch"),
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
        ("Have the next run build it anew", "kb rm ./handbook"),
        ("Of an agent with several", "kb rm ./handbook search"),
    ),
    "tools": (
        ("Which functions an agent has", "tools ./my-agent"),
        ("Call one by hand", "tools ./my-agent word_count --arg text='a b c'"),
    ),
    "init": (
        ("An agent that runs as it stands", "init hello"),
        ("One that asks a model", "init hello --template llm"),
    ),
    "import": (
        ("What would be taken over, and what differs", "import ./theirs --dry-run"),
        ("Take it over", "import ./theirs"),
    ),
    "schema": (
        ("For an editor", "schema -o graph.schema.json"),
        ("Look something up", "schema | jq '.properties | keys'"),
    ),
    "test": (
        ("Run an agent's cases", "test ./my-agent"),
        ("Only some of them", "test ./my-agent -k refund -x"),
    ),
    "worker": (
        ("All that a Redis needs, in one process", "worker --scheduler --redis redis://db:6379/0"),
        ("On every core", "worker --processes 8 --redis redis://db:6379/0"),
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
        ("Runs and workers on web pages", "monitor --redis redis://db:6379/0"),
        ("For other machines", "monitor --address 0.0.0.0 --basic-auth me:secret"),
        ("In a browser, at once", "monitor --open"),
        ("For several people", "monitor --address 0.0.0.0 --users users.txt"),
    ),
    "bench": (
        ("What a node costs here", "bench --only hop"),
        ("Everything, as JSON", "bench --json"),
        ("How well knowledge bases find", "bench rag --quality"),
    ),
    "prune": (
        ("Remove what ended more than a week ago", "prune --older 7d"),
        ("Failures of one agent, without a question", "prune --status failed --agent triage --yes"),
    ),
    "bench rag": (
        ("How fast knowledge bases are", "bench rag"),
        ("How well they find", "bench rag --quality"),
        ("With as many chunks as yours", "bench rag --chunks 100000 --json"),
    ),
    "doctor": (
        ("What is missing, and what to do", "doctor"),
        ("Whether stored runs are consistent", "doctor --verify"),
    ),
    "completion": (
        ("For bash, in ~/.bashrc", 'eval "$(sleipnir completion bash)"'),
        ("For fish", "completion fish > ~/.config/fish/completions/sleipnir.fish"),
    ),
    "help": (
        ("What a verb does, with examples", "help run"),
        ("Of a part of a verb", "help kb build"),
    ),
}


def lines_of(verb: str) -> list[str]:
    """The lines of a verb's examples."""
    return [line for what, call in EXAMPLES.get(verb, ()) for line in (f"# {what}", _typed(call))]


def add_to(command: click.Command, verb: str) -> None:
    """Have a command, and its parts, show their examples below their help."""
    # \b keeps click from filling the lines.
    command.epilog = "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines_of(verb))))
    if isinstance(command, click.Group):
        for name, part in command.commands.items():
            add_to(part, f"{verb} {name}")


def _typed(call: str) -> str:
    """An example as it is typed; those that are no plain call name the command themselves."""
    return call if call.startswith("eval ") else f"sleipnir {call}"
