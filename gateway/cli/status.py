"""`tieline status`: how the gateways of this user fare that run now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.options import JsonOption
from gateway.cli.output import DONE, NO, console, examples, print_json, table, tell_warning

if TYPE_CHECKING:
    from gateway.runtime.control import GatewayStatus


def register(app: typer.Typer) -> None:
    """Add `status`."""

    @app.command(epilog=examples("tieline status", "tieline status --json | jq '.[].peers[].state'"))
    def status(
        pid: Annotated[int | None, typer.Option(help="Ask only the gateway with this process id.")] = None,
        json: JsonOption = False,
    ) -> int:
        """Show how the running gateways fare.

        For each of yours: listeners, sessions, recording, and the health of every peer. Ends with 1 if none
        runs.
        """
        gateways = ask_all(pid)
        if json:
            print_json(gateways)
        elif gateways:
            show(gateways)
        else:
            console().print("no gateway runs" if pid is None else f"no gateway runs as process {pid}")
        return DONE if gateways else NO

    del status


def ask_all(pid: int | None = None) -> list[GatewayStatus]:
    """Ask every gateway that left a control socket; one that hangs is told on stderr and left out."""
    import msgspec

    from gateway.runtime.control import ControlError, GatewayStatus, ask, sockets

    gateways: list[GatewayStatus] = []
    for path in sockets():
        if pid is not None and path.stem != str(pid):
            continue
        try:
            gateways.append(msgspec.convert(ask(path, "status"), GatewayStatus))
        except ControlError as error:
            if error.reason != "gone":
                tell_warning(str(error))
        except msgspec.ValidationError:
            tell_warning(f"the gateway behind `{path}` is of another version")
    return gateways


def show(gateways: Sequence[GatewayStatus]) -> None:
    """Print each gateway with a table of its peers."""
    out = console()
    for number, gateway in enumerate(gateways):
        where = ", ".join(listener.address for listener in gateway.listeners) or "nothing"
        recording = gateway.recording_dir if gateway.recording == "on" else gateway.recording
        out.print(
            f"{chr(10) if number else ''}"
            f"process {gateway.pid}, tieline {gateway.version}, up {_span(gateway.uptime_s)}\n"
            f"  config     {gateway.config or 'none'}\n"
            f"  listens on {where}\n"
            f"  sessions   {gateway.sessions}, {gateway.in_flight} calls in flight\n"
            f"  recording  {recording}\n",
            markup=False,
        )
        rows = [
            (
                peer.name, peer.kind, peer.state, str(peer.life), str(peer.in_flight), str(peer.calls),
                str(peer.errors), peer.last_error or "",
            )
            for peer in gateway.peers
        ]  # fmt: skip
        numbers = ("life", "in flight", "calls", "errors")
        out.print(table(("peer", "kind", "state", *numbers, "last error"), rows, right=numbers))


def _span(seconds: float) -> str:
    """Return a time span in its two largest units."""
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    left, parts = int(seconds), list[str]()
    for name, size in units:
        if left >= size:
            parts.append(f"{left // size} {name}")
            left %= size
    return " ".join(parts[:2]) or "0 s"
