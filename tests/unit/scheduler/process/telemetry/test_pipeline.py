"""The queue of spans: bounded, and never in the way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator

import pytest

from sleipnir.scheduler.process.telemetry.identity import Trace
from sleipnir.scheduler.process.telemetry.pipeline import MOST_CONTENT, MOST_WAITING, Pipeline
from sleipnir.scheduler.process.telemetry.spans import ExportedSpan
from tests.support.collector import Collector
from tests.support.wait import wait_until

# Generous, as test machines are busy; what ends early costs nothing.
PATIENCE_S = 60.0
CREDENTIALS = "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER"


class NoRuns:
    """Where reports look up nothing."""

    def load(self, run_ids: Iterable[str]) -> None:
        """Read nothing."""


class Report:
    """A report of one span."""

    facts, run_id = NoRuns(), ""

    def spans(self) -> Iterator[ExportedSpan]:
        yield ExportedSpan(Trace(32 * "a"), 16 * "b", "", "one", 1.0, 2.0, {})


@pytest.fixture
def pipeline() -> Iterator[Pipeline]:
    """A pipeline whose thread ends with the test: it would export to the next one's collector."""
    before = set(threading.enumerate())
    pipeline = Pipeline()

    def is_over() -> bool:
        pipeline.close(within_s=0.0)  # aborts what is being sent
        return not set(threading.enumerate()) - before

    yield pipeline
    wait_until(is_over, "the pipeline's threads end")


def test_a_collector_that_hangs_fills_the_queue_and_no_more(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{hanging.getsockname()[1]}"
        )

        for _ in range(MOST_WAITING + 10):
            pipeline.offer(Report())
        pipeline.close(within_s=0.1)

    assert pipeline.dropped()["traces"] >= 10


def test_content_that_waits_is_bounded_too(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        port = hanging.getsockname()[1]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")

        for _ in range(3):
            pipeline.offer(Report(), MOST_CONTENT // 2)
        pipeline.offer(Report())
        lost = pipeline.dropped()["traces"]
        pipeline.close(within_s=0.1)

    assert lost == 1


def test_a_span_does_not_wait_for_others(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as collector:
        for name, value in collector.environment.items():
            monkeypatch.setenv(name, value)

        for count in (1, 2):
            pipeline.offer(Report())
            wait_until(lambda: len(collector.spans()) == count, f"span {count} arrives")  # noqa: B023 - at once

        pipeline.close(within_s=PATIENCE_S)


def test_it_goes_on_after_it_was_closed(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as collector:
        for name, value in collector.environment.items():
            monkeypatch.setenv(name, value)

        for _ in range(2):
            pipeline.offer(Report())
            pipeline.close(within_s=PATIENCE_S)

        assert [span.name for span in collector.spans()] == ["one", "one"]
        assert pipeline.dropped()["traces"] == 0
        assert collector.resources()[0]["service.name"] == "sleipnir"


def test_what_a_collector_refuses_is_counted(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as collector:
        collector.pages.clear()  # 404
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())

        pipeline.watch(lambda: {'sleipnir_process_redis_errors_total{kind="x"}': 1})
        pipeline.offer(Report())
        pipeline.close(within_s=PATIENCE_S)

        assert pipeline.dropped() == {"traces": 1, "metrics": 1}


def test_what_cannot_be_set_up_is_told_once_and_tried_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
        monkeypatch.setenv(CREDENTIALS, "none-that-is-installed")
        pipeline.offer(Report())
        wait_until(lambda: caplog.messages != [], "it is told")

        monkeypatch.delenv(CREDENTIALS)
        wait_until(lambda: len(collector.spans()) == 1, "the span arrives")

        pipeline.close(within_s=PATIENCE_S)
    assert caplog.messages == ["no telemetry: the variables OTEL_* cannot be used"]


def test_a_process_ends_though_its_telemetry_cannot_be_set_up(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv(CREDENTIALS, "none-that-is-installed")
    pipeline.offer(Report())
    wait_until(lambda: caplog.messages != [], "it is told")

    pipeline.close(within_s=PATIENCE_S)

    assert "telemetry" not in [thread.name for thread in threading.enumerate()]
