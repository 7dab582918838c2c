"""Where telemetry goes on this machine: the files of the log, and the endpoint for Prometheus."""

from __future__ import annotations

import asyncio
import http.client
import os
import threading
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from gateway.config.model import Config, TelemetryConfig
from gateway.protocol.log import line
from gateway.telemetry.hub import READY_BYTES, Telemetry
from gateway.telemetry.logs import LogFiles, log_dir
from gateway.telemetry.prometheus import PrometheusServer
from recordings.redaction import Redactor
from tests.gateway.protocol.test_log import entry


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_directory_is_the_protocols_unless_it_is_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")

    assert log_dir({}) == Path("/home/me/.pi/agent/logs/extensions")
    assert log_dir({"PI_EXTENSION_LOG_DIR": "/var/log/ext"}) == Path("/var/log/ext")
    assert log_dir({"PI_EXTENSION_LOG_DIR": "~/ext"}) == Path("/home/me/ext")


def test_each_session_has_a_private_file_in_private_directories(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        files = LogFiles(directory=tmp_path / "a" / "b")
        files.append("s1", b"{}\n")
        files.append("s1", b"{}\n")
        files.append("../s2", b"{}\n")
    finally:
        os.umask(old)

    assert {p.name: p.read_bytes() for p in (tmp_path / "a" / "b").iterdir()} == {
        "s1.jsonl": b"{}\n{}\n", "_s2.jsonl": b"{}\n",
    }  # fmt: skip
    assert [mode(p) for p in (tmp_path / "a", tmp_path / "a" / "b", files.path("s1"))] == [
        0o700,
        0o700,
        0o600,
    ]


def test_a_file_that_others_may_read_is_made_private_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.touch(0o644)
    LogFiles(file=path).append("s", b"{}\n")

    assert mode(path) == 0o600


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match=r"log\.jsonl"):
        LogFiles(file=tmp_path / "log.jsonl").append("s", b"{}\n")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/metrics", {}, 200),
        ("/metrics?x=1", {}, 200),
        ("/", {}, 404),
        ("/metrics", {"Host": "evil.example"}, 403),
        ("/metrics", {"Origin": "http://evil.example"}, 403),
    ],
)
def test_the_endpoint_answers_scrapers_and_no_web_pages(
    path: str, headers: dict[str, str], status: int
) -> None:
    server = PrometheusServer("127.0.0.1", 0, lambda: "up 1\n")
    try:
        connection = http.client.HTTPConnection(urlsplit(server.address).netloc, timeout=10)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
    finally:
        server.close()

    assert answer.status == status
    assert (body == b"up 1\n") == (status == 200)


def test_an_address_that_is_taken_is_an_error_and_a_closed_endpoint_leaves_it_free() -> None:
    server = PrometheusServer("127.0.0.1", 0, lambda: "")
    port = urlsplit(server.address).port or 0
    with pytest.raises(OSError, match="in use"):
        PrometheusServer("127.0.0.1", port, lambda: "")
    server.close()

    PrometheusServer("127.0.0.1", port, lambda: "").close()


def test_lines_that_are_not_written_are_bounded_and_their_loss_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, told = threading.Event(), list[str]()
    written = entry()
    size = len(line(written))
    monkeypatch.setattr("gateway.telemetry.hub.MOST_LINE_BYTES", 10 * size)
    real = LogFiles.append

    def stuck(files: LogFiles, session: str, lines: bytes) -> None:
        go_on.wait(30)
        real(files, session, lines)

    monkeypatch.setattr(LogFiles, "append", stuck)

    async def main() -> int:
        config = Config(telemetry=TelemetryConfig(log_file=str(tmp_path / "log")))
        telemetry = Telemetry(config, Redactor(b"k" * 32), tell=told.append)
        for number in range(100):
            telemetry.write(f"s{number % 3}", written)
            telemetry._flush()  # pyright: ignore[reportPrivateUsage]
        go_on.set()
        await telemetry.close()
        return telemetry.lines_dropped

    assert asyncio.run(main()) == 90
    assert (tmp_path / "log").stat().st_size == 10 * size
    assert [sentence for sentence in told if "are lost" in sentence] == told
    assert len(told) == 1


def test_lines_do_not_wait_for_a_collector_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, told = threading.Event(), list[str]()
    monkeypatch.setattr("gateway.telemetry.hub.END_S", 0.5)

    class Silent:
        """A collector that takes its time."""

        def send_spans(self, _: object) -> bool:
            return answers.wait(30)

        def send_metrics(self, *_: object) -> bool:
            return answers.wait(30)

        def shutdown(self) -> None: ...

    async def main() -> None:
        config = Config(telemetry=TelemetryConfig(log_file=str(tmp_path / "log")))
        telemetry = Telemetry(config, Redactor(b"k" * 32), tell=told.append, otlp=cast("Any", Silent()))
        telemetry._spans.append(cast("Any", "a span"))  # pyright: ignore[reportPrivateUsage]
        telemetry._flush()  # pyright: ignore[reportPrivateUsage]
        telemetry.write("s", entry())
        await telemetry.close()

    try:
        asyncio.run(main())
        assert (tmp_path / "log").read_bytes() == line(entry())
    finally:
        answers.set()
    assert told == ["warning: telemetry was not told to the end: it was not taken within 0.5 s"]


def test_lines_of_a_busy_gateway_are_handed_over_in_small_pieces_before_the_pump_flushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = list[int]()
    written = entry()
    size = len(line(written))
    real = LogFiles.append

    def seen(files: LogFiles, session: str, lines: bytes) -> None:
        pieces.append(len(lines))
        real(files, session, lines)

    monkeypatch.setattr(LogFiles, "append", seen)
    many = 5 * READY_BYTES // size

    async def main() -> None:
        config = Config(telemetry=TelemetryConfig(log_file=str(tmp_path / "log")))
        telemetry = Telemetry(config, Redactor(b"k" * 32), tell=lambda _: None)
        for _ in range(many):
            telemetry.write("s", written)
        await telemetry.close()

    asyncio.run(main())

    assert sum(pieces) == many * size == (tmp_path / "log").stat().st_size
    assert len(pieces) == 5
    assert max(pieces) < READY_BYTES + size
