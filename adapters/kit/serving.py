"""Runs an extension until the other side has gone or a signal comes, over stdio, a unix socket or a websocket.

Owns the process's end, the options of the command line and the token of a websocket. The streams are the
transports', the messages the sessions'.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from adapters.kit.app import App, Dialect
from adapters.kit.errors import ToolError
from adapters.kit.mcp_session import McpSession
from adapters.kit.pi_session import PiSession
from transports.base import Acceptor, Hello, Link, TransportError
from transports.guard import is_loopback
from transports.interrupts import INTERRUPTED, heed
from transports.stdio import serve_stdio
from transports.unix import UnixListener

Session: TypeAlias = McpSession | PiSession
DIALECTS = ("mcp", "pi")
PRINCIPAL = "host"


class _Listener(Protocol):
    @property
    def address(self) -> str: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


def session_of(app: App, dialect: Dialect) -> Session:
    """The extension's end of one connection. Call on the loop."""
    return PiSession(app) if dialect == "pi" else McpSession(app)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--dialect`, `--listen` and `--token-file` to a command line."""
    parser.add_argument("--dialect", choices=DIALECTS, default="mcp", help="what is spoken (mcp)")
    parser.add_argument(
        "--listen", default="stdio", metavar="WHERE", help="stdio, unix:PATH, or ws://127.0.0.1:PORT (stdio)"
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="the bearer token of a websocket; made where there is none"
    )


def run_from(app: App, arguments: Sequence[str] | None) -> None:
    """Serve as a command line says."""
    parser = argparse.ArgumentParser(description=app.instructions or f"{app.name}, an extension.")
    add_options(parser)
    run(app, parser.parse_args(arguments))


def run(app: App, options: argparse.Namespace | None = None) -> None:
    """Serve until the other side has gone, SIGTERM or SIGINT; then cancel what runs and call the app's closers.

    `options` are those of `add_options`; without them it is MCP over stdio. One connection over stdio is all there is;
    a listener serves many, each with calls of its own, until a signal comes.
    """
    dialect: Dialect = "pi" if options is not None and options.dialect == "pi" else "mcp"
    listen: str = options.listen if options is not None else "stdio"
    try:
        heed()
        if listen == "stdio":
            asyncio.run(_serve_one(app, dialect))
        else:
            asyncio.run(_serve_many(app, dialect, listen, options.token_file if options else None))
    except (ToolError, TransportError) as fault:
        sys.exit(f"{app.name}: {fault}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


async def _serve_one(app: App, dialect: Dialect) -> None:
    await start(app)
    session = session_of(app, dialect)

    def accept(link: Link, hello: Hello) -> Session:
        del hello
        session.opened(link)
        return session

    link = serve_stdio(accept)
    _on_signals(session.stop)
    await session.ended.wait()
    await session.settle()
    await close(app)
    link.close()
    await session.gone.wait()
    if app.fault is not None:
        raise app.fault


async def _serve_many(app: App, dialect: Dialect, listen: str, token_file: str | None) -> None:
    sessions: set[Session] = set()
    ended = asyncio.Event()

    def accept(link: Link, hello: Hello) -> Session:
        del hello
        session = session_of(app, dialect)
        for gone in [each for each in sessions if each.gone.is_set()]:
            sessions.discard(gone)
        sessions.add(session)
        session.opened(link)
        return session

    listener = _listener(app, accept, listen, token_file)
    await start(app)
    await listener.start()
    sys.stderr.write(f"{app.name}: {dialect} at {listener.address}\n")
    sys.stderr.flush()
    _on_signals(ended.set)
    await ended.wait()
    for session in sessions:
        session.stop()
    for session in sessions:
        await session.settle()
    await listener.stop()
    await close(app)


def _listener(app: App, accept: Acceptor, listen: str, token_file: str | None) -> _Listener:
    if listen.startswith("unix:"):
        return UnixListener(listen.removeprefix("unix:"), accept)
    where = urlsplit(listen)
    try:
        port = where.port
    except ValueError:
        port = None
    if where.scheme != "ws" or not where.hostname or port is None:
        sys.exit(f"{app.name}: --listen {listen}: say stdio, unix:PATH, or ws://127.0.0.1:PORT")
    if not is_loopback(where.hostname):
        sys.exit(f"{app.name}: --listen {listen}: only loopback is listened at; put a gateway before it")
    if token_file is None:
        sys.exit(
            f"{app.name}: --listen {listen}: any program of this machine could connect; say --token-file FILE"
        )
    tokens = {PRINCIPAL: _token(app, token_file)}
    from transports.ws_listener import (
        WebSocketListener,
    )  # a third of the time that all of the kit takes to import

    return WebSocketListener(accept, host=where.hostname, port=port, path=where.path or None, tokens=tokens)


def _token(app: App, path: str) -> str:
    """The token in a file that is ours alone, made where there is none."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    except OSError as fault:
        sys.exit(f"{app.name}: --token-file {path}: {fault.strerror}")
    else:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
    try:
        if os.stat(path).st_mode & 0o077:
            sys.exit(f"{app.name}: --token-file {path}: others can read it; `chmod 600` it")
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as fault:
        sys.exit(f"{app.name}: --token-file {path}: {fault}")
    if len(token) < 16:
        sys.exit(f"{app.name}: --token-file {path}: the token has less than 16 characters")
    return token


def _on_signals(stop: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


async def start(app: App) -> None:
    """Await what is to be done before anybody is served. Raises `ToolError`."""
    for starter in app.starters:
        await starter()


async def close(app: App) -> None:
    """Await what is to be done at the end."""
    for closer in app.closers:
        await closer()
