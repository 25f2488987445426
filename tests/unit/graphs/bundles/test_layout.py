"""What a worker finds in an unpacked bundle."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.bundles.archive import pack, unpack
from sleipnir.graphs.bundles.layout import agent_directory, bundle_parts, library_of, skills_of
from sleipnir.graphs.bundles.parsed import PARSED
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.skills import functions_of, read_skill
from sleipnir.graphs.tools.library import ToolLibrary
from sleipnir.graphs.tools.toolbox import Toolbox

GRAPH = "name: demo\nglobal_tools: {tools}\nstart: a\nnodes: {{a: {{type: end}}}}\n"
TOOL = 'def run():\n    "Does it."\n'


def write(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def bundle(
    home: Path, tools: str = "[]", aliases: Mapping[str, str] = {}, servers: Any = None
) -> Path:
    """The root of the unpacked bundle of `home/agents/demo`."""
    write(home, {"agents/demo/graph.yaml": GRAPH.format(tools=tools)})
    library = ToolLibrary([home / "functions" / "tools"], aliases)
    agent = load_agent(home / "agents" / "demo")
    packed = pack(bundle_parts(agent, library, home, servers))
    unpack(packed.data, packed.digest, home / "unpacked")
    return home / "unpacked"


def files_of(root: Path) -> set[str]:
    return {file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()}


def test_an_agent_without_tools_is_alone(tmp_path: Path) -> None:
    write(tmp_path, {"functions/tools/.env": "A=1", "functions/utils/help.sh": ""})

    root = bundle(tmp_path)

    assert files_of(root) == {"agents/demo/graph.yaml", "manifest.json", PARSED}
    assert agent_directory(root) == root / "agents" / "demo"


def test_tools_come_with_what_they_need(tmp_path: Path) -> None:
    tools = {f"functions/tools/{name}.py": TOOL for name in ("one", "two", "other")}
    write(tmp_path, {**tools, "functions/tools/.env": "A=1", "functions/utils/help.sh": ""})
    write(tmp_path, {"agents/.shared/common.sh": "", "functions/utils/secrets.yaml": "A: 1"})

    root = bundle(tmp_path, "[one, two.py]")

    assert files_of(root) == {
        "agents/.shared/common.sh",
        "agents/demo/graph.yaml",
        "functions/tools/.env",
        "functions/tools/one.py",
        "functions/tools/two.py",
        "functions/utils/help.sh",
        "manifest.json",
        PARSED,
    }


def test_aliases_mean_on_a_worker_what_they_meant_at_submission(tmp_path: Path) -> None:
    write(tmp_path, {f"functions/tools/{name}.py": TOOL for name in ("one", "two")})
    aliases = {"pair": "one, two", "odd": "one, three", "single": "two"}

    root = bundle(tmp_path, "[pair]", aliases)

    toolbox = Toolbox(["pair"], library_of(root), agent_directory(root))
    assert [function.name for function in toolbox.functions] == ["one", "two"]
    assert toolbox.functions[0].file == root / "functions" / "tools" / "one.py"
    assert toolbox.select(["single", "odd"]).others == ("odd",)
    assert [found.name for found in toolbox.select(["single"]).functions] == ["two"]


def test_servers_keep_their_order(tmp_path: Path) -> None:
    servers = {"mcpServers": {"z": {"command": "z"}, "a": {"url": "{{URL}}"}}}

    root = bundle(tmp_path, servers=servers)

    text = (root / "functions" / "mcp.json").read_text()
    assert list(json.loads(text)["mcpServers"].items()) == list(servers["mcpServers"].items())


@pytest.mark.parametrize("manifest", [None, "{", "[]", '{"agent": "a"}'])
def test_a_bundle_without_a_usable_manifest_is_refused(
    manifest: str | None, tmp_path: Path
) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)

    with pytest.raises(BundleError, match=r"no usable manifest\.json"):
        agent_directory(tmp_path)


@pytest.mark.parametrize("name", ["", ".", "..", "../agent", "/etc", "a/b"])
def test_a_manifest_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"agent": name, "aliases": {}}))

    with pytest.raises(BundleError, match="not a valid directory name"):
        agent_directory(tmp_path)


def test_skills_travel_with_their_tools_and_give_the_agent_none(tmp_path: Path) -> None:
    front = "---\ndescription: d\nenabled_tools: pair\n---\n"
    skill = "home/skills/poetry/SKILL.md"
    tools = {f"functions/tools/{name}.py": TOOL for name in ("one", "two", "three")}
    write(tmp_path, {skill: front, "agents/demo/graph.yaml": GRAPH.format(tools="[one]"), **tools})
    library = ToolLibrary([tmp_path / "functions" / "tools"], {"pair": "one, two"})
    agent = load_agent(tmp_path / "agents" / "demo")

    parts = bundle_parts(agent, library, tmp_path, None, skill_files={"poetry": tmp_path / skill})
    packed = pack(parts)
    root = tmp_path / "unpacked"
    unpack(packed.data, packed.digest, root)

    assert {
        "functions/skills/poetry/SKILL.md",
        "functions/tools/one.py",
        "functions/tools/two.py",
    } == {place for place in files_of(root) if place.startswith("functions/")}
    file = skills_of(root).find("poetry")
    assert file is not None
    assert [f.name for f in functions_of(read_skill(file), library_of(root))] == ["one", "two"]
    toolbox = Toolbox(agent.global_tools, library_of(root), agent_directory(root))
    assert [function.name for function in toolbox.functions] == ["one"]
