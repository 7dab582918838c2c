"""The complaints of `symptoms.py`, asked of this gateway and of five others: `python -m loadtest.peers.pain`.

Each of the others is installed by its own registry's client into an environment of its own under `.tools/peers`, once.
Every symptom gets a fresh gateway with `pain_server.py` behind it on stdio, and a raw streamable HTTP client in front.
Prints a table; `--write FILE` puts it there, with the command and the date. Not part of the tests: it takes minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import msgspec
import psutil

from loadtest.peers.http_client import HEADERS, HttpClient, greeting
from loadtest.peers.installing import CACHE, ROOT, install
from loadtest.peers.page import cell, write
from loadtest.peers.symptoms import SERVER, SYMPTOMS, Client, Verdict, ours

STORE = CACHE / "pain.json"
START_S = 60.0
SYMPTOM_S = 60.0
END_S = 5.0


@dataclass(frozen=True)
class Gateway:
    """One gateway: how it is installed and started."""

    name: str
    label: str
    package: str
    kind: str
    """`python`, `node`, or `own`."""
    command: Callable[[Path, int, list[str]], list[str]]
    """(its environment, port, server command) -> what to run."""
    path: str = "/mcp"
    environment: Callable[[Path], dict[str, str]] = lambda place: {}
    """What it needs in its environment, given a directory for one run."""

    @property
    def place(self) -> Path:
        return CACHE / self.name


FASTMCP = """
import sys
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
port, command, *arguments = sys.argv[1:]
create_proxy(StdioTransport(command, arguments)).run(
    transport="http", host="127.0.0.1", port=int(port), show_banner=False
)
"""


def own(place: Path, port: int, server: list[str]) -> list[str]:
    """Write a configuration as a user would, and run it."""
    place.mkdir(parents=True, exist_ok=True)
    config = Path(tempfile.mkdtemp(dir=place)) / "tieline.toml"
    config.write_text(
        f"[listen.http]\nport = {port}\ninsecure_loopback = true\n[peers.pain]\ncommand = {json.dumps(server)}\n"
    )
    main = "import sys; from gateway.cli.main import main; sys.exit(main())"
    return [sys.executable, "-c", main, "run", str(config), "--record", str(config.parent / "recordings")]


def secrets_of_a_day(place: Path) -> dict[str, str]:
    """Settings without which ContextForge does not start; made up for each run."""
    names = ("JWT_SECRET_KEY", "AUTH_ENCRYPTION_SECRET", "BASIC_AUTH_PASSWORD", "PLATFORM_ADMIN_PASSWORD")
    made_up = {name: f"Aa1-{secrets.token_hex(24)}" for name in names}
    return {**made_up, "DATABASE_URL": f"sqlite:///{place}/forge.db"}


def shell(words: Sequence[str]) -> str:
    return " ".join(words)


GATEWAYS = [
    Gateway("tieline", "Tieline", "", "own", own),
    Gateway(
        "fastmcp",
        "FastMCP proxy 4.2.3",
        "fastmcp==4.2.3",
        "python",
        lambda place, port, server: [str(place / "bin/python"), "-c", FASTMCP, str(port), *server],
    ),
    Gateway(
        "mcp-proxy-py",
        "mcp-proxy 0.13.0 (PyPI)",
        "mcp-proxy==0.13.0",
        "python",
        lambda place, port, server: [str(place / "bin/mcp-proxy"), "--port", str(port), "--", *server],
    ),
    Gateway(
        "mcp-proxy-npm",
        "mcp-proxy 6.7.19 (npm)",
        "mcp-proxy@6.7.19",
        "node",
        lambda place, port, server: [
            str(place / "node_modules/.bin/mcp-proxy"),
            *("--port", str(port), "--host", "127.0.0.1", "--server", "stream", "--", *server),
        ],
    ),
    Gateway(
        "supergateway",
        "supergateway 4.0.0",
        "supergateway@4.0.0",
        "node",
        lambda place, port, server: [
            str(place / "node_modules/.bin/supergateway"),
            *("--stdio", shell(server), "--outputTransport", "streamableHttp", "--stateful"),
            *("--port", str(port), "--logLevel", "none"),
        ],
    ),
    Gateway(
        "contextforge",
        "ContextForge translate",
        "mcp-contextforge-gateway==1.1.0" if sys.version_info >= (3, 12) else "mcp-contextforge-gateway<1.1",
        "python",
        lambda place, port, server: [
            *(str(place / "bin/python"), "-m", "mcpgateway.translate", "--stdio", shell(server)),
            *("--expose-streamable-http", "--port", str(port), "--logLevel", "error"),
        ],
        environment=secrets_of_a_day,
    ),
]


class HttpStage:
    """A gateway that runs in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log
        self._clients: list[HttpClient] = []

    async def client(self) -> Client:
        client = HttpClient(self.url)
        await asyncio.wait_for(client.open(), 20)
        self._clients.append(client)
        return client

    def pids(self) -> list[int]:
        return [self.process.pid]

    async def knock(self, headers: dict[str, str]) -> int | None:
        async with httpx2.AsyncClient(trust_env=False, timeout=10) as http:
            content = json.dumps(greeting())
            async with http.stream(
                "POST", self.url, headers={**HEADERS, **headers}, content=content
            ) as answer:
                return answer.status_code

    async def end(self) -> bool:
        self.process.send_signal(signal.SIGTERM)
        for _ in range(int(END_S / 0.1)):
            if self.process.poll() is not None:
                return True
            await asyncio.sleep(0.1)
        return False

    async def close(self) -> None:
        for client in self._clients:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.close(), 5)


@asynccontextmanager
async def running(gateway: Gateway) -> AsyncGenerator[HttpStage]:
    """Start a gateway; afterwards it and everything below it is ended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "heard.jsonl"
        command = gateway.command(gateway.place, port, [sys.executable, "-S", "-E", str(SERVER), str(log)])
        env = {**os.environ, "TIELINE_STATE_DIR": place, "FASTMCP_LOG_LEVEL": "CRITICAL"}
        env |= gateway.environment(Path(place))
        null = subprocess.DEVNULL
        with subprocess.Popen(command, cwd=ROOT, stdin=null, stdout=null, stderr=null, env=env) as process:
            stage = HttpStage(process, f"http://127.0.0.1:{port}{gateway.path}", log)
            try:
                await reachable(process, port)
                yield stage
            finally:
                await stage.close()
                below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(3)
                process.kill()
                for one in {*below, *ours(stage)}:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.kill()


async def reachable(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until something listens."""
    async with asyncio.timeout(START_S):
        while True:
            if process.poll() is not None:
                raise ConnectionError(f"it has ended with {process.returncode}")
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            writer.close()
            return


async def ask(gateway: Gateway, name: str) -> Verdict:
    """Put one symptom to one gateway."""
    try:
        async with running(gateway) as stage, asyncio.timeout(SYMPTOM_S):
            return await SYMPTOMS[name](stage, await stage.client())
    except Exception as fault:  # noqa: BLE001 - whatever a gateway does to its client is its verdict
        return Verdict(right=False, said=type(fault).__name__)


def table(found: dict[str, dict[str, Verdict]], gateways: list[Gateway]) -> str:
    """The verdicts as a Markdown table; a right one carries a check mark."""
    lines = [
        "| symptom | " + " | ".join(one.label for one in gateways) + " |",
        "| --- |" + " --- |" * len(gateways),
    ]
    for name, row in found.items():
        cells = [f"{'✓' if row[one.name].right else '✗'} {cell(row[one.name].said)}" for one in gateways]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    right = [f"{sum(row[one.name].right for row in found.values())} of {len(found)}" for one in gateways]
    lines.append("| **right** | " + " | ".join(f"**{one}**" for one in right) + " |")
    return "\n".join(lines) + "\n"


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", action="append", choices=[one.name for one in GATEWAYS])
    parser.add_argument(
        "--write", type=Path, help="put the table, command and date between the marks of this file"
    )
    parser.add_argument("--symptom", action="append", choices=list(SYMPTOMS))
    options = parser.parse_args()
    gateways = [one for one in GATEWAYS if not options.only or one.name in options.only]
    for gateway in gateways:
        if why := install(gateway.place, gateway.package, kind=gateway.kind):
            sys.exit(f"error: {gateway.label} cannot be installed: {why}")
    found = remembered()
    for name in options.symptom or SYMPTOMS:
        for gateway in gateways:
            verdict = found[name][gateway.name] = await ask(gateway, name)
            mark = "right" if verdict.right else "WRONG"
            print(f"{name} | {gateway.label} | {mark} | {verdict.said}", flush=True)
        STORE.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1))
    text = table(found, [one for one in GATEWAYS if all(one.name in row for row in found.values())])
    print(text)
    if options.write is not None:
        write(options.write, "pain table", "python -m loadtest.peers.pain", text)


def remembered() -> dict[str, dict[str, Verdict]]:
    """The verdicts of earlier runs: `--only` brings one column up to date."""
    old: dict[str, dict[str, Verdict]] = {}
    if STORE.exists():
        old = msgspec.json.decode(STORE.read_bytes(), type=dict[str, dict[str, Verdict]])
    return {name: old.get(name, {}) for name in SYMPTOMS}


if __name__ == "__main__":
    asyncio.run(main())
