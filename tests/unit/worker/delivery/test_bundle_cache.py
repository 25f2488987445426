"""Agents as a worker has them: unpacked from bundles."""

from pathlib import Path

import pytest

from sleipnir.graphs.bundles.archive import Bundle, Part, pack
from sleipnir.graphs.bundles.layout import bundle_parts
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.tools.library import ToolLibrary
from sleipnir.worker.delivery import bundle_cache
from sleipnir.worker.delivery.bundle_cache import BundleCache

GRAPH = """\
name: demo
global_tools: [greet]
start: a
nodes: {a: {type: end}}
"""


class Store:
    """Holds bundles."""

    def __init__(self, *bundles: Bundle) -> None:
        self._bundles = {bundle.digest: bundle.data for bundle in bundles}

    def get(self, digest: str) -> bytes | None:
        return self._bundles.get(digest)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    agent, tools = tmp_path / "demo", tmp_path / "tools"
    for directory in (agent, tools):
        directory.mkdir()
    (agent / "graph.yaml").write_text(GRAPH)
    (agent / "tools.sh").write_text("# @cmd Part\npart() { :; }\n")
    (tools / "greet.py").write_text('def run():\n    "Greet."\n')
    return pack(bundle_parts(load_agent(agent), ToolLibrary([tools]), tmp_path, None))


def test_an_agent_has_its_files_and_functions_below_the_bundles_root(
    bundle: Bundle, tmp_path: Path
) -> None:
    agent = BundleCache(Store(bundle), tmp_path / "cache").get(bundle.digest)

    assert agent.root == tmp_path / "cache" / bundle.digest
    assert agent.directory == agent.root / "agents" / "demo"
    places = {function.name: function.file for function in agent.toolbox.functions}
    assert places == {
        "greet": agent.root / "functions" / "tools" / "greet.py",
        "part": agent.directory / "tools.sh",
    }


def test_an_agent_that_was_put_out_of_memory_is_read_again(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_cache, "_KEPT", 1)
    library = ToolLibrary([tmp_path / "tools"])
    (tmp_path / "demo" / "graph.yaml").write_text(GRAPH + "description: another\n")
    another = pack(bundle_parts(load_agent(tmp_path / "demo"), library, tmp_path, None))
    cache = BundleCache(Store(bundle, another), tmp_path / "cache")

    first = cache.get(bundle.digest)
    same = cache.get(bundle.digest)
    cache.get(another.digest)
    again = cache.get(bundle.digest)

    assert same is first
    assert again is not first
    assert again == first


def test_a_bundle_of_another_layout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    old = pack([Part("graph.yaml", tmp_path / "graph.yaml")])

    with pytest.raises(BundleError, match="no usable manifest"):
        BundleCache(Store(old), tmp_path / "cache").get(old.digest)
