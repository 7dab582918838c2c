"""What a running gateway does beside messages: the ready file, the control socket, reload, what can wait at a start.

Owns signals but those that end it. Every part is best effort: none of them may keep a gateway from serving.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.config.mistakes import ConfigError, Mistake
from gateway.runtime.processes import sweep
from gateway.runtime.world import tell

SWEEP_S = 0.5
"""How long after a start is done what an agent need not wait for: to look for what a killed gateway has left behind,
and to load what looks for secrets, or is needed when something is amiss."""

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.runtime.control import ControlServer
    from gateway.serve import Gateway


class Upkeep:
    """The upkeep of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._control: ControlServer | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_ending = asyncio.Event()
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin. The ready file is written last.

        Raises:
            ConfigError: If it cannot be.
        """
        options = self._gateway.options
        loop = asyncio.get_running_loop()
        if options.can_reload:
            loop.add_signal_handler(signal.SIGHUP, self._gateway.reload)
        if not options.stdio or options.ready_file is not None:
            from gateway.runtime.control import ControlError, serve_control

            try:
                self._control = await serve_control({"status": self._gateway.status})
            except (ControlError, OSError) as fault:
                tell(f"warning: `tieline status` will not see this gateway: {fault}")
        self._sweeping = loop.create_task(self._sweep())
        if options.watch and options.config_path is not None:
            self._spawn(self._watch(options.config_path))
        if options.ready_file is not None:
            ready = {
                "pid": os.getpid(),
                "listeners": self._gateway.addresses(),
                "control": str(self._control.path) if self._control is not None else None,
            }
            draft = options.ready_file.with_name(f".{options.ready_file.name}.{os.getpid()}")
            try:
                draft.write_bytes(msgspec.json.encode(ready))
                draft.replace(options.ready_file)
            except OSError as fault:
                raise _not_written(options.ready_file, fault) from fault
        for address in self._gateway.addresses():
            if address["kind"] != "stdio":
                tell(f"listening on {address['url']}")
        for path in self._gateway.token_files:
            tell(f"agents give the bearer token that is in {path}")

    async def stop(self) -> None:
        """End. What a short-lived gateway has not looked for yet it looks for now."""
        self._is_ending.set()
        for task in list(self._tasks):
            task.cancel()
        sweeping = {self._sweeping} if self._sweeping is not None else set[asyncio.Task[None]]()
        if sweeping or self._tasks:
            await asyncio.wait(sweeping | self._tasks, timeout=2.0)
        if self._gateway.options.can_reload:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        if self._control is not None:
            await self._control.close()
        self._withdraw()

    def _withdraw(self) -> None:
        """Remove the ready file, unless another gateway has written its own since."""
        path = self._gateway.options.ready_file
        if path is None:
            return
        try:
            if msgspec.json.decode(path.read_bytes(), type=dict[str, Any]).get("pid") == os.getpid():
                path.unlink()
        except (OSError, msgspec.MsgspecError):
            return

    async def _sweep(self) -> None:
        try:
            async with asyncio.timeout(SWEEP_S):
                await self._is_ending.wait()
        except TimeoutError:
            redactor = self._gateway.world.redactor
            await asyncio.to_thread(redactor.settle)
            redactor.look_closely()
            await asyncio.to_thread(_have_at_hand)
        await asyncio.to_thread(sweep)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, config_path: Path | str) -> None:
        from pathlib import Path

        from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType] - its filter is untyped

        path = Path(config_path)
        async for changes in awatch(path.parent, recursive=False):
            if any(Path(changed) == path for _, changed in changes):
                self._gateway.reload()


def no_ready_file(path: Path | None) -> None:
    """Remove the ready file of an earlier gateway, which would say that this one is ready.

    Raises:
        ConfigError: If it cannot be.
    """
    try:
        if path is not None:
            path.unlink(missing_ok=True)
    except OSError as fault:
        raise _not_written(path, fault) from fault


def _not_written(path: Path | None, fault: OSError) -> ConfigError:
    return ConfigError([Mistake("", None, "--ready-file", f"cannot be written: {path}: {fault.strerror}")])


def _have_at_hand() -> None:
    """Load what most sessions have no use for: when one has, there may be no descriptor left to load it with."""
    import fnmatch  # noqa: F401  # pyright: ignore[reportUnusedImport]

    import gateway.calls.leaving  # pyright: ignore[reportUnusedImport]
    import gateway.calls.lookup  # pyright: ignore[reportUnusedImport]
    import gateway.calls.manners  # pyright: ignore[reportUnusedImport]
    import gateway.calls.odd_names  # pyright: ignore[reportUnusedImport]
    import gateway.runtime.null_tap  # noqa: F401  # pyright: ignore[reportUnusedImport]
