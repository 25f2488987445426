"""What an import takes of a directory, and what it says of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from sleipnir.scheduler.config.settings import FIELDS, load_settings
from sleipnir.scheduler.importing.imported import Fate, Imported, Readiness
from sleipnir.scheduler.importing.importer import Importer


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our configuration directory, empty."""
    for name in FIELDS:
        monkeypatch.delenv(f"SLEIPNIR_{name.upper()}", raising=False)
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(tmp_path / "ours"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ours").mkdir()
    return tmp_path / "ours"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return tmp_path / "theirs"


def write(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(dedent(text))


def take(theirs: Path, ours: Path) -> dict[str, Imported]:
    """Import everything; return the parts by name."""
    takeover = Importer(theirs, ours, load_settings().values).plan()
    takeover.carry_out()
    return {part.name: part for part in takeover.parts}


def fates(parts: Mapping[str, Imported]) -> dict[str, Fate]:
    return {name: part.fate for name, part in parts.items()}


GRAPH = """
    model: openai:x
    start: a
    nodes:
      a: {type: llm, prompt: "{{initial_prompt}}", next: z}
      z: {type: end}
"""


def test_skills_are_taken_with_all_they_hold_and_agents_are_checked_with_them(
    theirs: Path, ours: Path
) -> None:
    write(
        theirs,
        {
            "skills/sow/SKILL.md": "---\ndescription: How to sow.\n---\nSow.\n",
            "skills/sow/tables/dates.csv": "peas,3\n",
            "skills/dig/SKILL.md": "Dig.\n",
            "agents/g/graph.yaml": f"name: g\nskills_enabled: true\nenabled_skills: [sow]\n"
            f"{dedent(GRAPH)}",
        },
    )
    takeover = Importer(theirs, ours, load_settings().values).plan()
    parts = {part.name: part for part in takeover.parts}

    assert parts["g"].check is Readiness.READY
    assert not any(ours.iterdir())
    takeover.carry_out()
    assert (ours / "skills/sow/tables/dates.csv").read_text() == "peas,3\n"
    assert parts["sow"] == Imported("skill", "sow", Fate.COPIED)
    assert parts["dig"].notes == (
        "no agent can load it: SKILL.md does not begin with front matter between lines '---'",
    )
    assert take(theirs, ours)["sow"].fate is Fate.UNCHANGED
    (ours / "skills/sow/SKILL.md").write_text("mine")
    assert take(theirs, ours)["sow"].fate is Fate.KEPT
    assert (ours / "skills/sow/SKILL.md").read_text() == "mine"


def test_settings_that_mean_the_same_are_taken(theirs: Path, ours: Path) -> None:
    taken = {
        "rag_embedding_model": "ollama:embed",
        "rag_reranker_model": "jina:rerank",
        "rag_chunk_size": 900,
        "rag_chunk_overlap": 90,
        "rag_top_k": 7,
        "compression_threshold": 9000,
        "tool_timeout": 60,
        "temperature": 0.2,
    }
    write(theirs, {"config.yaml": yaml.safe_dump(taken | {"visible_tools": ["fs_cat.py"]})})

    parts = take(theirs, ours)

    assert yaml.safe_load((ours / "config.yaml").read_text()) == taken
    assert fates(parts) == {**dict.fromkeys(taken, Fate.COPIED), "visible_tools": Fate.KEPT}
    (why,) = parts["visible_tools"].notes
    assert "here it would take tools from agents" in why
    assert load_settings().values.rag_top_k == 7


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("rag_embedding_model: shed:embed", "unknown provider of 'shed:embed'"),
        ("rag_reranker_model: local", "unknown provider of 'local'"),
        ("rag_top_k: 0", "rag_top_k (from config.yaml): expected"),
        ("tool_timeout: soon", "tool_timeout (from config.yaml): expected"),
    ],
)
def test_settings_with_wrong_values_are_left_out(
    theirs: Path, ours: Path, line: str, why: str
) -> None:
    write(theirs, {"config.yaml": line})

    (part,) = take(theirs, ours).values()

    assert part.fate is Fate.KEPT
    assert part.notes[0].startswith(f"config.yaml:1: {why}")
    assert not (ours / "config.yaml").exists()


def test_document_loaders_are_taken_one_by_one(theirs: Path, ours: Path) -> None:
    write(ours, {"config.yaml": "document_loaders:\n  pdf: mine $1  # keep\n"})
    write(
        theirs,
        {
            "config.yaml": """
            document_loaders:
              pdf: pdftotext $1 -
              jina: "curl -H 'Authorization: {{JINA_TOKEN}}' https://r.example/$1"
              odd: [a]
            """
        },
    )

    parts = take(theirs, ours)

    assert fates(parts) == {"pdf": Fate.KEPT, "jina": Fate.COPIED, "odd": Fate.KEPT}
    assert parts["jina"].notes == ("config.yaml:4: add to secrets.yaml: JINA_TOKEN",)
    assert "  pdf: mine $1  # keep\n" in (ours / "config.yaml").read_text()
    assert load_settings().values.document_loaders.keys() == {"pdf", "jina"}


CLIENTS = """
    model: shed:llama
    clients:
      - {type: claude, api_key: sk-ant}
      - type: openai-compatible
        name: shed
        api_base: http://10.0.0.7:8000/v1
        api_key: sk-shed-1234
        models: [{name: llama}]
        extra: {proxy: x}
      - {type: openai-compatible, name: loft, api_base: "http://b/v1", api_key: "{{LOFT}}"}
      - {type: openai-compatible, name: bare}
      - {type: openai-compatible, name: wrong, api_base: nowhere}
      - {type: bedrock, access_key_id: x}
      - {type: gpt4all}
"""


def test_clients_become_providers_before_models_are_looked_at(theirs: Path, ours: Path) -> None:
    write(theirs, {"config.yaml": CLIENTS})

    parts = take(theirs, ours)

    assert yaml.safe_load((ours / "config.yaml").read_text()) == {
        "models": {
            "providers": {
                "shed": {"api_base": "http://10.0.0.7:8000/v1", "api_key": "SHED_API_KEY"},
                "loft": {"api_base": "http://b/v1", "api_key": "{{LOFT}}"},
            }
        },
        "model": "shed:llama",
    }
    assert (ours / "secrets.yaml").read_text() == "SHED_API_KEY: sk-shed-1234\n"
    notes = {name: part.notes for name, part in parts.items() if part.kind == "client"}
    assert notes == {
        "claude": (
            "config.yaml:4: its key is `ANTHROPIC_API_KEY`, in secrets.yaml or in the environment "
            "of workers",
        ),
        "shed": ("config.yaml:5: without extra",),
        "loft": ("config.yaml:11: add to secrets.yaml: LOFT",),
        "bare": (
            "config.yaml:12: its key is `BARE_API_KEY`, in secrets.yaml or in the environment of "
            "workers; a server of your own needs `models.providers.bare.api_base`",
        ),
        "wrong": notes["wrong"],
        "bedrock": (
            "config.yaml:14: set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION_NAME in the "
            "environment of workers",
        ),
        "gpt4all": ("config.yaml:15: 'gpt4all' is not a provider known here",),
    }
    assert "models.providers.wrong.api_base" in notes["wrong"][0]
    assert "sk-shed-1234" not in str(parts)
    assert load_settings().values.model == "shed:llama"


def test_providers_are_added_to_ours_and_a_second_import_changes_nothing(
    theirs: Path, ours: Path
) -> None:
    text = "models:\n  providers:\n    # mine\n    loft: {api_base: 'http://mine/v1'}\n"
    write(ours, {"config.yaml": text})
    write(theirs, {"config.yaml": CLIENTS})

    first = fates(take(theirs, ours))
    before = (ours / "config.yaml").read_text()
    second = fates(take(theirs, ours))

    assert (first["shed"], first["loft"]) == (Fate.COPIED, Fate.KEPT)
    assert "    # mine\n" in before
    assert {name for name, fate in second.items() if fate is Fate.COPIED} == set()
    assert (ours / "config.yaml").read_text() == before


def test_a_tool_that_lacks_its_program_does_not_hide_ours(theirs: Path, ours: Path) -> None:
    tool = "# @describe Search.\n# @meta require-tools {}\nmain() {{ :; }}\n"
    write(
        theirs,
        {
            "functions/tools/web_search_coyote.sh": tool.format("no-such-program"),
            "functions/tools/fs_cat.sh": tool.format("no-such-program"),
            "functions/tools/fs_ls.sh": tool.format("bash"),
            "functions/tools/own.sh": tool.format("no-such-program"),
            "agents/g/graph.yaml": f"name: g\nglobal_tools: [web_search_coyote.sh, fs_cat]\n"
            f"{dedent(GRAPH)}",
        },
    )

    parts = take(theirs, ours)

    lacks = "it needs no-such-program, which this machine lacks: the shipped"
    assert parts["web_search_coyote.sh"].notes == (
        f"{lacks} web_search takes its place, which answers to 'web_search_coyote' too",
    )
    assert parts["fs_cat.sh"].notes == (f"{lacks} fs_cat takes its place",)
    assert {part.name for part in parts.values() if part.fate is Fate.KEPT} == {
        *("web_search_coyote.sh", "fs_cat.sh")
    }
    assert parts["g"].check is Readiness.READY
    assert sorted(path.name for path in (ours / "functions/tools").iterdir()) == [
        *("fs_ls.sh", "own.sh")
    ]


@pytest.mark.parametrize(
    ("settings", "is_said"), [("", True), ("settings: {tolerate_failures: false}", False)]
)
def test_nodes_whose_failure_no_longer_ends_the_run_are_named(
    theirs: Path, ours: Path, settings: str, is_said: bool
) -> None:
    graph = """
    start: a
    model: openai:x
    nodes:
      a: {type: llm, prompt: x, next: b}
      b: {type: script, script: b.py, next: c, fallback: z}
      c: {type: script, script: b.py, next: z}
      z: {type: end}
    """
    write(theirs, {"agents/g/graph.yaml": f"name: g\n{settings}\n{dedent(graph)}"})
    write(theirs, {"agents/g/b.py": "print('{}')\n"})

    notes = take(theirs, ours)["g"].notes

    said = [note for note in notes if "tolerate_failures: false" in note]
    assert bool(said) is is_said
    assert all("manual says: a, c; Coyote" in note for note in said)


def test_agents_are_told_apart_by_what_the_validator_finds(theirs: Path, ours: Path) -> None:
    write(
        theirs,
        {
            "agents/fine/graph.yaml": f"name: fine\n{dedent(GRAPH)}",
            "agents/bad/graph.yaml": "name: bad\nnodes: [\n",
            "agents/far/config.yaml": "instructions: x\ndocuments: [/data/x.md]\n",
            "agents/old/config.yaml": "instructions: x\nmemory: true\n",
        },
    )

    parts = take(theirs, ours)

    checks = {name: part.check for name, part in parts.items()}
    assert checks == {
        "bad": Readiness.ERRORS,
        "far": Readiness.ERRORS,
        "fine": Readiness.READY,
        "old": Readiness.WARNINGS,
    }
    (far,) = (note for note in parts["far"].notes if "E207" in note)
    assert far.endswith(
        "set rag_absolute_paths: true in config.yaml, or move it into the agent's directory"
    )
