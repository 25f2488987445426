"""The checks of deploy/ find mistakes: one of each kind in each file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deployment.checks import alerts, chart, compose, image, units
from tests.support.pages import ROOT

Check = Callable[[Path, Path], Iterator[str]]

_CHECKS: dict[str, Check] = {
    "alerts": alerts.complaints,
    "chart": chart.complaints,
    "compose": lambda deploy, _: compose.complaints(deploy),
    "image": lambda deploy, _: image.complaints(deploy),
    "units": lambda deploy, _: units.complaints(deploy),
}
# The check, the file below deploy/, what is replaced by what, and a part of the complaint.
MISTAKES = [
    (
        "units",
        "systemd/sleipnir-monitor.service",
        "StateDirectory=sleipnir\n",
        "",
        "data directory",
    ),
    ("units", "systemd/sleipnir-worker.service", "StopSec=40", "StopSec=30", "too little time"),
    ("units", "systemd/sleipnir-scheduler.service", "WatchdogSec=60", "", "whether it lives"),
    ("units", "systemd/sleipnir-worker.service", "sleipnir worker", "sleipnir work", "no command"),
    ("units", "systemd/sleipnir-scheduler.service", "User=", "# ", "sysusers.d makes the user"),
    (
        "units",
        "systemd/sleipnir-monitor.service",
        "UMask=0077\n",
        "SystemCallFilter=\nCapabilityBoundingSet=~\nPrivateDevices=no\nProtectHome=no\n",
        "it may do too much",
    ),
    ("units", "systemd/sleipnir-worker.service", "redis-url:/", "redis:/", "from its credential"),
    ("units", "systemd/sleipnir-worker@.service", "--queues %i", "--queues", "with a queue"),
    ("units", "systemd/sleipnir-monitor.service", "_CONFIG_DIR", "_CONF_DIR", "config.yaml"),
    ("units", "systemd/sleipnir-up.service", "ges=yes", "ges=yes  # no more", "ignores a line"),
    ("units", "systemd/tmpfiles.d/sleipnir.conf", "0750 root", "0700 root", "cannot read certif"),
    (
        "units",
        "systemd/tmpfiles.d/sleipnir.conf",
        "redis-url 0600",
        "redis-url 0644",
        "agents could",
    ),
    ("units", "systemd/environment.example", "ARCHIVE_AFTER_S", "ARCHIVE_AFTER", "no setting"),
    ("compose", "compose.yaml", "  read_only: true\n", "", "read_only is not True"),
    ("compose", "compose.yaml", "--maxmemory ", "--maxclients ", "its command lacks --maxmemory"),
    ("compose", "compose.yaml", 'DRAIN_S: "20"', 'DRAIN_S: "600"', "its stop_grace_period"),
    ("compose", "compose.yaml", "replicas: 2", "replicas: 1", "there are not two"),
    ("compose", "compose.yaml", "command: worker", "comand: worker", "it is no Compose file"),
    ("compose", "compose.env.example", "REDIS_MEMORY=2g\n", "", "has other variables"),
    ("compose", "compose.yaml", "SLEIPNIR_AGENTS_DIR", "SLEIPNIR_AGENT_DIR", "there is no setting"),
    ("compose", "compose.yaml", "    - ./keys:/keys:ro\n", "", "it has keys and the"),
    ("image", "Dockerfile", "USER 10001:10001", "USER sleipnir", "its user is not a number"),
    ("image", "Dockerfile", "-slim@sha256:", "-slim-", "not named by its digest"),
    ("image", "Dockerfile", "requirements.runtime.lock ", "requirements.lock ", ".dockerignore"),
    ("image", "Dockerfile", "--require-hashes", "--no-cache-dir", "no hash was checked"),
    ("image", "Dockerfile", "WORKDIR /src", "WORKDIR src", "hadolint"),
    ("image", "locks/sql.lock", "sqlalchemy==2.1", "sqlalchemy==2.0", "other versions"),
    ("alerts", "prometheus/alerts.yaml", "_up == 0", "_down == 0", "promtool test rules"),
    ("alerts", "prometheus/alerts.yaml", "severity: page", "level: page", "how urgent it is"),
    ("alerts", "prometheus/alerts.yaml", "#monitoring", "#monitor", "there is no heading"),
    (
        "alerts",
        "prometheus/grafana-dashboard.json",
        "sleipnir_stored_runs",
        "sleipnir_run_total",
        "there is no figure sleipnir_run_total",
    ),
    (
        "alerts",
        "prometheus/alerts_test.yaml",
        "      - {eval_time: 30m, alertname: SleipnirRepairs, exp_alerts: []}\n",
        "",
        "no test shows when it is silent",
    ),
    ("chart", "helm/sleipnir/templates/_helpers.tpl", "/livez", "/healthz", "does not ask for"),
    ("chart", "helm/sleipnir/templates/_helpers.tpl", "Seconds 20", "Seconds 0", "its time to end"),
    ("chart", "helm/sleipnir/templates/_helpers.tpl", "Path: /etc/sl", "Path: /run/sl", "no file"),
    ("chart", "helm/sleipnir/templates/_helpers.tpl", "nir-hooks, ", "nir-hook, ", "no file"),
    (
        "chart",
        "helm/sleipnir/templates/_helpers.tpl",
        "{{ .Values.archive.url }}}",
        "/a}",
        "cannot wr",
    ),
    (
        "chart",
        "helm/sleipnir/templates/workers.yaml",
        "      volumes:\n",
        '      volumes:\n        {{- include "sleipnir.trustedVolumes" $ | nindent 8 }}\n',
        "agents could read the archive",
    ),
    (
        "chart",
        "helm/sleipnir/templates/_helpers.tpl",
        "with .Values.volumeM",
        "with .V",
        "files of",
    ),
    ("chart", "helm/sleipnir/templates/monitor.yaml", '"$(POD_IP)" ', "", "answer Prometheus"),
    (
        "chart",
        "helm/sleipnir/templates/workers.yaml",
        'ternary 1 $worker.replicas (kindIs "invalid" $worker.replicas)',
        "$worker.replicas | default 1",
        "there are 1 of worker browser",
    ),
    ("chart", "helm/sleipnir/templates/_helpers.tpl", "drop: [ALL]", "drop: []", "capabilities"),
    ("chart", "helm/sleipnir/templates/workers.yaml", "replicas: {{", "replica: {{", "Kubernetes"),
    ("chart", "helm/sleipnir/templates/workers.yaml", "valueLocation: work", "value: work", "work"),
    ("chart", "helm/sleipnir/templates/workers.yaml", "maxReplicaCount", "maxReplicas", "maxRepl"),
    (
        "chart",
        "helm/sleipnir/templates/workers.yaml",
        "mulf $slots",
        "add $slots",
        "starts a worker",
    ),
    (
        "chart",
        "helm/sleipnir/templates/workers.yaml",
        "?queue={{ . }}",
        "?queue=gpu",
        "the work of",
    ),
    ("chart", "helm/sleipnir/templates/workers.yaml", "--queues=", "--queue=", "does not serve"),
    (
        "chart",
        "helm/sleipnir/values.yaml",
        "drainSeconds: 20",
        "drainSeconds: soon",
        "drainSeconds",
    ),
]


@pytest.mark.deploy
@pytest.mark.parametrize(("check", "file", "right", "wrong", "complaint"), MISTAKES)
def test_a_mistake_is_found(
    check: str, file: str, right: str, wrong: str, complaint: str, tmp_path: Path
) -> None:
    deploy, scratch = tmp_path / "tree" / "deploy", tmp_path / "scratch"
    shutil.copytree(ROOT / "deploy", deploy, symlinks=True)
    for name in (".dockerignore", "requirements.runtime.lock"):
        shutil.copy(ROOT / name, deploy.parent)
    scratch.mkdir()
    text = (deploy / file).read_text()
    assert right in text
    (deploy / file).write_text(text.replace(right, wrong))

    found = list(_CHECKS[check](deploy, scratch))

    assert any(complaint in each for each in found), found
