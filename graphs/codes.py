"""Every code of a finding (`E…`, `W…`) and of a failed run (`R…`), with its cause and remedy.

The tables of docs/language.md are generated from here; texts are Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Code(NamedTuple):
    """The meaning of a code."""

    cause: str
    cure: str


# By section of the manual, in its order.
CODES: Mapping[str, Mapping[str, Code]] = {
    "run": {
        "R001": Code(
            "a value was missing in a prompt, question, query or `over`",
            "seed it in `initial_state`, or have an earlier node write it",
        ),
        "R002": Code(
            "a node ended without a next node, or none of its routes applied",
            "give it `next`; have the script always print `_next`",
        ),
        "R003": Code("a script's `_next`, or a map's `branch`, names no node", "correct the name"),
        "R004": Code(
            "a node was visited too often",
            "make the loop end, or raise `max_loop_iterations`",
        ),
        "R005": Code(
            "the time limit of the run was reached",
            "raise `settings.timeout`; remember that waiting for people counts",
        ),
        "R006": Code(
            "a step selected no next node",
            "report it: validation should not let this through",
        ),
        "R007": Code(
            "two end nodes finished in one step",
            "join the branches in one node before the end",
        ),
        "R008": Code(
            "nodes wrote the same key in one step",
            "give the key a reducer, or use different keys",
        ),
        "R009": Code(
            "a reducer met a type it cannot work with",
            "look at `initial_state` and at what the nodes write",
        ),
        "R010": Code(
            "`over` is not a list",
            "a string that contains JSON is still a string: have the script print a list",
        ),
        "R011": Code(
            "an item of a map failed",
            "the message has its index and reason; or set `on_error`",
        ),
        "R012": Code(
            "an item of a map gave no result", "have a node of the branch write `output_key`"
        ),
        "R013": Code(
            "a script failed, and has neither `fallback` nor `next`, or the run is strict",
            "`sleipnir logs RUN --node NODE`; add a `fallback`",
        ),
        "R014": Code(
            "a model call failed, and has neither `fallback` nor `next`, or the run is strict",
            "the message has the reason: a key, a model's name, a limit",
        ),
        "R015": Code(
            "the child run failed, was cancelled, timed out, or could not start",
            "the message names the child: `sleipnir show` it",
        ),
        "R016": Code(
            "another agent took longer than the node's `timeout`",
            "raise it: waiting for people counts",
        ),
        "R017": Code(
            "child runs are nested too deeply",
            "check whether an agent runs itself; otherwise raise `max_agent_depth`",
        ),
        "R018": Code(
            "another agent's output does not fit `output_schema`",
            "have it print JSON; check the schema",
        ),
        "R019": Code(
            "an answer given in advance does not satisfy `validation`",
            "run it again with a valid one; answers to open questions are checked when given",
        ),
        "R020": Code(
            "a knowledge base could not be built or searched",
            "the message names each document that could not be read, with the reason",
        ),
        "R021": Code(
            "the state, a value or a list is too large",
            "keep files on disk and paths in the state; or raise the limit",
        ),
        "R022": Code(
            "a node killed its isolated process twice in a row; or its visit lost 20 workers",
            "the message has the exit status or signal; SIGKILL usually means out of memory. "
            "For lost workers, find out why they end",
        ),
        "R023": Code(
            "an internal error, or the run's files are gone",
            "look at the worker's log, and report it",
        ),
        "R024": Code(
            "an expression of `next` or of a `set` node has no value",
            "the message names the path that is not set, or the types; `has(x) && …` guards",
        ),
        "R025": Code(
            "a budget does not allow a model call",
            "raise the budget that the message names, then `sleipnir retry` continues at that "
            "node; a higher `batch --budget` continues such lines",
        ),
        "R026": Code(
            "`max_concurrency` of a map is a template that gives no whole number of at least 1",
            "the message has the value; correct what sets it",
        ),
        "R601": Code(
            "a model call of a normal agent failed, four times if the failure is transient",
            "the message has the reason; `sleipnir retry` continues after the last turn",
        ),
        "R602": Code(
            "`_instructions` of a normal agent failed or returned nothing",
            "the message has what it printed",
        ),
        "R603": Code(
            "a normal agent is not done after its last turn",
            "raise `agent_max_turns`",
        ),
        "R604": Code(
            "a normal agent does not get on: in 25 turns in a row no call succeeded with a new "
            "result",
            "the message has the last call; mend the tool or the instructions, then `sleipnir "
            "retry`, or raise `agent_max_stuck_turns`",
        ),
    },
    "file": {
        "E001": Code("the directory holds a `graph.yaml` and a `config.yaml`", "keep one"),
        "E002": Code("it holds neither", "rename a `graph.yml`; look at the path"),
        "E003": Code(
            "the file cannot be read: not YAML, not UTF-8, over 1 MiB, or a line of `.env` that is "
            "not `KEY=VALUE`",
            "the message has the place",
        ),
        "E004": Code("a key appears twice in one mapping", "remove one of them"),
        "E005": Code(
            "YAML that is not supported: tags, several documents, too many aliases",
            "use plain YAML",
        ),
        "E006": Code("no such field", "the hint has the nearest one"),
        "E007": Code("a required field is missing", "add it"),
        "E008": Code("a value of the wrong type or out of range", "often a text that needs quotes"),
        "E009": Code(
            "a version of the language other than 1.0",
            '`version: "1.0"`, or leave it out',
        ),
        "E010": Code("`name` is empty", "name the agent like its directory"),
        "E011": Code("there are no nodes", "describe at least one, and an `end` node"),
        "E012": Code(
            "no such node type",
            "one of the nine of [Nodes](#nodes); the hint has the nearest",
        ),
        "E013": Code("a node's `id` is not its key", "leave `id` out"),
        "E014": Code("a key that cannot be a node's id", "no spaces, slashes or leading dot"),
        "E015": Code("`start` names no node", "name the node that a run starts with"),
    },
    "edges": {
        "E101": Code("an edge leads to a node that does not exist", "the hint has the nearest id"),
        "E102": Code(
            "edges form a loop in which nothing chooses",
            "close it with a condition: `next: [{when: …, to: …}, {to: …}]`",
        ),
        "E103": Code("there is no end node", "add one"),
        "E104": Code(
            "`next` is missing on a reachable node",
            "say where to continue",
        ),
        "E105": Code("an option has no route", "add it to `routes`"),
        "E106": Code(
            "`next` is an empty list",
            "name a node, or remove it where `next` is not needed",
        ),
        "E107": Code("several end nodes in one `next`", "join the branches first"),
        "E109": Code("a route behind one without a condition", "put it before that one"),
        "E110": Code("a loop that nothing leaves", "give a node in it a route to another"),
        "E111": Code(
            "a case that its value cannot have, by the `output_schema` that sets it",
            "the hint has the nearest value",
        ),
        "W001": Code(
            "no declared edge leads to this node, and no script names it",
            "fine if a script's `_next` does",
        ),
        "W002": Code("no declared edge leads to an end node, and no script names one", "as above"),
        "W003": Code("a route for which there is no option", "fine if people type it as an answer"),
        "W006": Code("`next` on an `approval` or `end` node, which ignores it", "remove it"),
        "W007": Code("`next` is missing on a node that no edge leads to", "it would fail (R002)"),
        "W014": Code("a target or an option is listed twice", "remove one of them"),
        "W018": Code(
            "a node of a map's branch is also a target from outside it", "use a node of its own"
        ),
        "W020": Code("an end node parallel to other nodes would cut them off", "join them first"),
        "W022": Code(
            "a run may find that no route applies (R002)",
            "end the list with `{to: …}`, or give the switch a `default`",
        ),
        "W023": Code(
            "a loop in which nothing counts: if its condition never changes, the visit cap ends it",
            "give a route `max`, or count in a `set` node and test that",
        ),
        "W024": Code(
            "a condition sees the node's own write of a key with a reducer",
            "decide in the next node, which sees the merged value",
        ),
        "W025": Code(
            "`output`, `input`, `failed` or `visit` in an expression hides a key of the state",
            "rename the key",
        ),
    },
    "references": {
        "E201": Code(
            "no such script, or no such file of a prompt",
            "paths are relative to the agent's directory",
        ),
        "E202": Code("a kind of script that cannot be run", "`.sh`, `.py` or `.ts`"),
        "E203": Code(
            "a script, or the file of a prompt, outside the agent's directory",
            "move it into the directory",
        ),
        "E204": Code("no such agent", "the hint has near names and the places searched"),
        "E205": Code("the other agent cannot be loaded", "`sleipnir validate` it"),
        "E206": Code(
            "a `rag` node without documents",
            "name files, directories or pages in `documents`",
        ),
        "E207": Code(
            "a document outside the agent's directory",
            "move it into the directory, or set `rag_absolute_paths: true` for absolute paths",
        ),
        "E208": Code(
            "the knowledge base is not built, and settings to build it are missing",
            "set the fields it names, or answer the questions of `run` at a terminal",
        ),
        "E209": Code(
            "no such tool, or a filter keeps it from the node",
            "list its file in `global_tools`; a tool of an MCP server must pass `mcp_tools` and "
            "`allowedTools` ([mcp.md](mcp.md#which-of-its-tools))",
        ),
        "E210": Code(
            "an MCP server that `mcp_servers` does not list",
            "add it to `mcp_servers` of the graph",
        ),
        "E211": Code(
            "no such provider or alias of models",
            "`provider:model`, such as `openai:gpt-4o-mini`, or an alias ([models.md](models.md))",
        ),
        "E212": Code(
            "an `llm` node or a normal agent without any model",
            "set `model` on the node, in the graph or in the settings",
        ),
        "E213": Code(
            "`output_schema` is not a usable JSON Schema",
            "references must point inside the schema",
        ),
        "E214": Code("`validation` cannot be read", "`len(input) <= 40`"),
        "E215": Code("a variable has no value", "`--var NAME=VALUE`, or give it a default"),
        "E216": Code(
            "a variable's name is invalid, or two names are the same in the environment",
            "letters, digits, `_`, `-`",
        ),
        "E217": Code("a `rag` node is called `graph` or `config`", "rename it"),
        "E218": Code(
            "`params` names a field of requests that has its own place",
            "write it as a field of the node or the graph; some are set by the engine alone",
        ),
        "E219": Code(
            "an expression cannot be read",
            "the message has the character; see [Expressions](#expressions)",
        ),
        "E222": Code(
            "a Python or bash script with a syntax error",
            "the line is that of the script; nothing of it was run",
        ),
        "E223": Code(
            "a document of a knowledge base that is not built is missing or cannot be read",
            "the message has each file and the reason; leave out what is not text by naming files "
            "or patterns (`docs/*.md`)",
        ),
        "E220": Code(
            "`inputs` that cannot be given: to a normal agent, or in place of the prompt",
            "put them into `prompt`",
        ),
        "E224": Code(
            "a queue that is not among those of `validate --queues`",
            "correct the name, or serve it (`sleipnir worker --queues`) and add it to the option",
        ),
        "E601": Code(
            "`dynamic_instructions` without a function for them",
            "a function `_instructions` in the tools file",
        ),
        "E602": Code("an agent with several `tools.*` files", "keep one"),
        "E603": Code("a tool file that cannot be read", "the message has the reason"),
        "E604": Code("a function without description", "[tools.md](tools.md) says where it goes"),
        "E605": Code(
            "an unsupported annotation, modifier or parameter",
            "see [tools.md](tools.md)",
        ),
        "E606": Code("a function's name is taken, reserved or not valid", "rename one of them"),
        "E607": Code(
            "a tool that is not in the setting `visible_tools`",
            "add it there, or remove it here",
        ),
        "E608": Code(
            "`mcp.json` cannot be read, or describes a server of the agent wrongly",
            "see [mcp.md](mcp.md)",
        ),
        "E609": Code(
            "the setting `rag_template` lacks `__INPUT__` or `__CONTEXT__`, and an agent has "
            "`documents`",
            "put both into it, or unset it",
        ),
        "E610": Code(
            "an environment variable that changes a normal agent cannot be read",
            "[agents.md](agents.md) says what it may hold",
        ),
        "E613": Code(
            "a node's `enabled_skills` names a skill that is not in the graph's",
            "add it there",
        ),
        "E614": Code(
            "`mcp_tools` of a node names an MCP server that `mcp_servers` does not list",
            "add it to `mcp_servers` of the graph",
        ),
        "W004": Code("what a `rag` node finds is lost", "give it `state_updates`"),
        "W011": Code("a field that has no effect here", "remove it"),
        "W012": Code("`tools` on an `agent` node", "the other agent has its own"),
        "W013": Code("`name` is not the directory's name", "the directory's name is used"),
        "W017": Code("an agent runs itself", "`max_agent_depth` limits that"),
        "W027": Code(
            "a node attaches files, and its model takes neither images nor PDFs",
            "choose another model, or say in `models.providers` what a server of yours takes",
        ),
        "W028": Code(
            "`plan`: on some way through the graph, a key is read before anything has set it",
            "seed it, set it on that way, or ask for it by `has`",
        ),
        "W029": Code(
            "`plan`: a prompt may be longer than what its model reads",
            "shorten it, or choose another model",
        ),
        "W030": Code(
            "`plan`: a run costs more, at the least, than the budget of one run",
            "raise `models.budgets.run.usd`",
        ),
        "W031": Code(
            "`plan`: no two lines have a prompt in common, so the node's `cache` has no effect",
            "remove `cache`",
        ),
        "W032": Code(
            "`economy: true` with tools: each turn of the loop waits for a batch of its own",
            "fine if it may take days; else remove `economy`",
        ),
        "W033": Code(
            "`--economy`: a model whose provider has no batches here, so it is called live",
            "choose another model, or leave `--economy` out",
        ),
        "W035": Code("`spawnable_agents` names an agent that is not found", "correct the name"),
        "W036": Code("`max_agent_depth: 0` in a graph that starts agents", "raise or remove it"),
        "W021": Code(
            "an MCP server is not configured, its program is not on this machine's PATH, or "
            "it does not answer",
            "its functions are missing",
        ),
        "W038": Code("`${NAME}` in a `.env` is not expanded", "write the value"),
        "W039": Code(
            "no tool file has this tool, but one of a similar name; an MCP server may have it",
            "correct the name, unless it is the server's",
        ),
        "W037": Code(
            "`mcp_tools` of an agent names an MCP server that `mcp_servers` does not list, or that "
            "is not configured",
            "correct the name, or add it to `mcp_servers`",
        ),
        "W601": Code(
            "a normal agent has no knowledge base, or its files have changed since it was built",
            "build it",
        ),
        "W602": Code(
            "a normal agent's model cannot call functions: it is offered none",
            "choose another model",
        ),
        "W604": Code(
            "a knowledge base is searched by keywords only: its embedding model is `none`",
            "fine where words are enough; else set `embedding_model`",
        ),
        "W605": Code(
            "settings or documents have changed since the knowledge base was built",
            "build it again, or keep it as it is",
        ),
        "W606": Code(
            "a skill is not found, or cannot be loaded",
            "the message has the directories searched, or the reason",
        ),
        "W607": Code(
            "an agent that could be started by name cannot be packed, so runs are without it",
            "the message has the agent and the reason",
        ),
        "W603": Code(
            "this machine lacks a program or variable of a tool that some node uses",
            "a worker needs it",
        ),
    },
    "state": {
        "E301": Code(
            "nodes of one step write the same key",
            "give it a reducer, or use different keys",
        ),
        "E302": Code(
            "a script runs beside others and does not say what it writes",
            '`KEY: "{{KEY}}"` in `state_updates` for each key that it prints, or '
            "`state_updates: {}`",
        ),
        "E303": Code(
            "a node reads a key that a parallel node writes: it would see the old value",
            "run them one after the other",
        ),
        "E304": Code("one of several parallel targets asks a person", "ask after the join"),
        "E305": Code("`max_concurrency` is below 1", "1 or more; leave it out for the default"),
        "E306": Code("no such reducer", "[Parallel nodes](#parallel-nodes) lists them"),
        "E307": Code(
            "one `next` has more than `max_branches` targets",
            "a `map` runs one node for any number of items",
        ),
        "W005": Code("`initial_state` sets `initial_prompt`", "it is overwritten by the prompt"),
        "W008": Code(
            "text that looks like a reference, but is not one",
            "usually spaces inside the braces: the hint has the right form",
        ),
        "W009": Code("a malformed reference", "it is always missing"),
        "W010": Code("a key that no template can reference", "letters, digits, `_`"),
        "W015": Code(
            "`output`, `choice` or `input` outside `state_updates`",
            "save it under another name first",
        ),
        "W016": Code(
            "nothing sets the key that a template reads, and no script has it in its text",
            "check the spelling; it would be empty, or fail (R001)",
        ),
        "W040": Code(
            "`x-form` describes a key that `initial_state` does not have, and no variable has",
            "correct the name, or seed the key",
        ),
        "W041": Code(
            "an `x-form` that contradicts itself, or that the default does not fit",
            "the message says how",
        ),
    },
    "maps": {
        "E401": Code(
            "the branch is not an `llm`, `agent`, `rag`, `script` or `set` node",
            "use one of these; an `agent` node can wrap anything else",
        ),
        "E402": Code(
            "`next` or `fallback` of a branch's node leads to a node that a map cannot run",
            "leave `next` out where an item ends; the map has its own",
        ),
        "E406": Code(
            "`as`, `collect_into` or `output_key` cannot be referenced by a template",
            "letters, digits, `_`",
        ),
        "E407": Code(
            "`next` of a branch's node names several nodes at once",
            "name one: an item goes one way",
        ),
        "W034": Code(
            "a node of a branch writes a key that the branch neither reads nor returns",
            "have the map's `output_key` hold what is needed",
        ),
        "W019": Code("`as` and `output_key` are the same", "rename one"),
    },
}
