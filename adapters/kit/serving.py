"""Runs an adapter over its stdin and stdout until stdin ends or a signal comes.

Owns the process's end. The streams are the transport's, the messages the session's.
"""

from __future__ import annotations

import asyncio
import signal

from adapters.kit.app import App
from adapters.kit.session import Session
from transports.base import Hello, Link
from transports.stdio import serve_stdio


def run(app: App) -> None:
    """Serve until stdin ends, SIGTERM or SIGINT; then cancel what runs and call the app's closers."""
    asyncio.run(_serve(app))


async def _serve(app: App) -> None:
    loop = asyncio.get_running_loop()
    session = Session(app)

    def accept(link: Link, hello: Hello) -> Session:
        session.link = link
        return session

    link = serve_stdio(accept)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, session.stop)
    await session.ended.wait()
    await session.settle()
    for closer in app.closers:
        await closer()
    link.close()
    await session.gone.wait()
