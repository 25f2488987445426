"""What is wrong with the Helm chart, as rendered for some values."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from tests.support.tools import find_helm, run_tool

VALUES = sorted((Path(__file__).parents[1] / "values").glob("*.yaml"))
_SCHEMAS = Path(__file__).parents[1] / "schemas"
_TOOL = "kubernetes-validate==1.37.0"
# The two latest minor versions that the tool has schemas of.
_KUBERNETES = ("1.36", "1.37")
_FILES = {
    "SLEIPNIR_REDIS_URL_FILE": "the URL of Redis",
    "SLEIPNIR_HOOK_KEY_FILE": "the key of webhooks",
    "SLEIPNIR_ARCHIVE_KEY_FILE": "the key of the archive",
}
# Of processes that execute no agents.
_TRUSTED = {"archive": "the archive", "archive-key": "its key", "hook-key": "the key of webhooks"}
_OF_POD = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_OF_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def complaints(deploy: Path, scratch: Path) -> Iterator[str]:
    """Yield what is wrong; `scratch` gets what the chart is rendered to."""
    chart = deploy / "helm" / "sleipnir"
    files = []
    for values in VALUES:
        rendered, error = render(chart, values)
        if error:
            yield f"{values.stem}: {error}"
            continue
        files.append(scratch / values.name)
        files[-1].write_text(rendered)
        given = yaml.safe_load(values.read_text())
        documents = [*filter(None, yaml.safe_load_all(rendered))]
        yield from (
            f"{values.stem}: {found}" for found in _of_workers(documents, given.get("workers", {}))
        )
        for document in documents:
            name = f"{document['kind']} {document['metadata']['name']}"
            for complaint in _of_document(document, given):
                yield f"{values.stem}, {name}: {complaint}"
    for version in _KUBERNETES:
        options = ("--strict", "--no-warn", "--quiet", "-k", version)
        done = run_tool(_TOOL, "kubernetes-validate", *options, *map(str, files))
        if done.returncode != 0:
            yield f"Kubernetes {version}: {done.stdout}{done.stderr}"


def render(chart: Path, values: Path) -> tuple[str, str]:
    """Return the objects for these values, and what Helm has against them."""
    helm = str(find_helm())
    where = ("--namespace", "agents", "--values", str(values))
    lint = _run(helm, "lint", "--quiet", str(chart), *where)
    if lint.returncode != 0:
        return "", lint.stdout + lint.stderr
    done = _run(helm, "template", "team", str(chart), "--kube-version", _KUBERNETES[-1], *where)
    return done.stdout, done.stderr if done.returncode != 0 else ""


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _of_document(document: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    kind, spec = document["kind"], document.get("spec", {})
    if kind in ("Deployment", "Pod"):
        pod = spec["template"]["spec"] if kind == "Deployment" else spec
        yield from _of_pod(pod, given.get("drainSeconds", 20), is_served=kind == "Deployment")
        yield from _of_files(pod, given.get("volumes", []), given.get("volumeMounts", []))
    is_worker = kind == "Deployment" and "-worker-" in document["metadata"]["name"]
    if kind == "Deployment":
        yield from _of_trust(spec["template"]["spec"], is_worker=is_worker)
    if is_worker and spec["strategy"]["rollingUpdate"] != {"maxUnavailable": 0, "maxSurge": 1}:
        yield "it ends workers before others have started"
    schema = _SCHEMAS / f"{kind}.json"
    if schema.exists():
        validator = jsonschema.Draft202012Validator(_schema(schema))
        yield from (error.message for error in validator.iter_errors(document))
    for trigger in spec["triggers"] if kind == "ScaledObject" else ():
        yield from _of_trigger(trigger["type"], trigger["metadata"])


def _of_trust(pod: Mapping[str, Any], *, is_worker: bool) -> Iterator[str]:
    """Yield what agents could read, and whether another process lacks its archive."""
    container = pod["containers"][0]
    if is_worker:
        names = {volume["name"] for volume in pod["volumes"]}
        yield from (f"agents could read {_TRUSTED[name]}" for name in names & _TRUSTED.keys())
        return
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    archive = environment.get("SLEIPNIR_ARCHIVE") or ""
    writable = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
    if archive.startswith("/") and archive not in writable:
        yield "it cannot write to its archive"


def _of_files(
    pod: Mapping[str, Any], volumes: Sequence[object], mounts: Sequence[object]
) -> Iterator[str]:
    given = [*pod["volumes"], *pod["containers"][0]["volumeMounts"]]
    if any(each not in given for each in (*volumes, *mounts)):
        yield "it lacks the files of all processes"


def _of_workers(
    documents: Sequence[Mapping[str, Any]], workers: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield which workers are too many, do not serve their queues, or scale by other work."""
    of_workers = {
        (each["kind"], each["metadata"]["name"].partition("-worker-")[2]): each["spec"]
        for each in documents
        if each["kind"] in ("Deployment", "ScaledObject")
    }
    for name, worker in workers.items():
        queues = worker.get("queues", ["default"])
        spec = of_workers["Deployment", name]
        if "replicas" in spec and spec["replicas"] != worker.get("replicas", 1):
            yield f"there are {spec['replicas']} of worker {name}"
        pod = spec["template"]["spec"]
        if f"--queues={','.join(queues)}" not in pod["containers"][0]["args"]:
            yield f"worker {name} does not serve {queues}"
        scaled = of_workers.get(("ScaledObject", name))
        wanted = worker.get("autoscaling", {}).get("cooldownPeriod", 60)
        if scaled and scaled["cooldownPeriod"] != wanted:
            yield f"worker {name} is not ended after {wanted} s"
        asked = (
            [_queues_of(trigger["metadata"]) for trigger in scaled["triggers"]] if scaled else []
        )
        if scaled and [queue for each in asked for queue in each] != queues:
            yield f"worker {name} does not scale by the work of {queues}"


def _queues_of(metadata: Mapping[str, str]) -> list[str]:
    if "url" in metadata:
        return [metadata["url"].partition("?queue=")[2]]
    return metadata["query"].partition('queue=~"')[2].partition('"')[0].split("|")


@cache
def _schema(file: Path) -> Any:
    return json.loads(file.read_text())


def _of_pod(pod: Mapping[str, Any], drain_s: int, *, is_served: bool) -> Iterator[str]:
    if pod["terminationGracePeriodSeconds"] != drain_s + 20:
        yield "its time to end is not drainSeconds and 20 s"
    if pod.get("automountServiceAccountToken") is not False:
        yield "it has a token of Kubernetes"
    yield from _lacks(pod["securityContext"], _OF_POD)
    container = pod["containers"][0]
    yield from _lacks(container["securityContext"], _OF_CONTAINER)
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    if not {"/tmp", "/var/lib/sleipnir"} <= mounts:
        yield "it cannot write where it must"
    yield from _of_environment(container["env"], mounts, drain_s)
    if not is_served:
        return
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        if container.get(probe, {}).get("httpGet") != {"path": path, "port": "health"}:
            yield f"its {probe} does not ask for {path}"
    if "memory" not in container.get("resources", {}).get("limits", {}):
        yield "its memory has no limit"


def _of_environment(
    variables: list[dict[str, Any]], mounts: set[str], drain_s: int
) -> Iterator[str]:
    environment = {variable["name"]: variable for variable in variables}
    for variable, what in _FILES.items():
        in_file = environment.get(variable, {}).get("value")
        if in_file is not None and str(Path(in_file).parent) not in mounts:
            yield f"it has no file with {what}"
    hosts = environment.get("SLEIPNIR_MONITOR_HOSTS", {}).get("value")
    if hosts is not None and "$(POD_IP)" not in hosts.split(","):
        yield "it does not answer Prometheus, which asks by the address of a pod"
    if environment["SLEIPNIR_PIN"]["value"] != "never":
        yield "its runs wait for a pod that is gone"
    if environment["SLEIPNIR_DRAIN_S"]["value"] != str(drain_s):
        yield "its drain_s is not drainSeconds"


def _lacks(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{key} is not {value}" for key, value in wanted.items() if given.get(key) != value)


def _of_trigger(kind: str, metadata: Mapping[str, str]) -> Iterator[str]:
    if kind == "metrics-api":
        asks = "/api/v1/scale?queue=" in metadata.get("url", "")
        if not asks or metadata.get("valueLocation") != "work":
            yield "it does not scale by the work"
        wanted = metadata["targetValue"]
    else:
        wanted = metadata["threshold"]
        if "sleipnir_work" not in metadata["query"]:
            yield "it does not scale by the work"
    if wanted != "25.6":  # of 32 slots
        yield f"it starts a worker for {wanted}"
