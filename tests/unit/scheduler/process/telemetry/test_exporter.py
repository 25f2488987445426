"""How long one export may take."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.process.telemetry.exporter import timeout_s


def test_each_signal_has_the_time_that_the_environment_gives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "4")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "3")

    assert (timeout_s("TRACES"), timeout_s("METRICS")) == (4.0, 3.0)


@pytest.mark.parametrize("given", ["60", "soon"])
def test_no_export_takes_longer_than_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", given)

    assert timeout_s("TRACES") == 10.0
