"""The endpoint that Prometheus scrapes: `GET /metrics`, in a thread of its own, so that no scrape delays a call.

Owns the listener. What is counted, and in which form, is `metrics`' business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from transports.guard import Guard, is_loopback, loopback_hosts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATIENCE_S = 5.0
"""How long a scraper may take to say what it wants."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that breaks off is not worth a word."""


class PrometheusServer:
    """A running endpoint. On loopback, only requests that name it as their host are answered."""

    def __init__(self, host: str, port: int, text: Callable[[], str]) -> None:
        """Listen. Raises `OSError` where that is impossible."""
        server = self._server = _Server((host, port), _handler(text, lambda: guard))
        bound = int(server.server_address[1])
        guard = Guard(hosts=loopback_hosts(bound) if is_loopback(host) else None)
        self.address = f"http://{host}:{bound}/metrics"
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="prometheus", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Listen no more. Blocks for a moment."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)


def _handler(text: Callable[[], str], guard: Callable[[], Guard]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE_S
        server_version = "tieline"
        sys_version = ""

        def do_GET(self) -> None:
            # A web page may reach loopback under a name of its own; what is counted is not its business.
            verdict = guard().judge(self.headers.items())
            if not verdict.allowed:
                self._answer(verdict.status, f"{verdict.reason}\n")
            elif self.path.partition("?")[0] != "/metrics":
                self._answer(404, "metrics are at /metrics\n")
            else:
                self._answer(200, text())

        def _answer(self, status: int, body: str) -> None:
            data = body.encode("utf-8", "replace")
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            """Say nothing."""

    return Handler
