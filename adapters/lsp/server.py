"""The adapter as a whole: a workspace with its language servers, and the tools over it.

Owns which tools there are and which of them write, and the overview of the servers.
"""

from __future__ import annotations

from adapters import kit
from adapters.lsp.changing import Changing
from adapters.lsp.checking import Checking
from adapters.lsp.finder import Finder
from adapters.lsp.navigation import Navigation
from adapters.lsp.results import Servers, ServerState
from adapters.lsp.workspace import Workspace

VERSION = "0.2.0"
_ABOUT = """Code beneath {root}, as {names} understand{s} it.
Name a symbol by its name, or by a path, a line and its text in that line; lines and columns count from 1.
Every result says which server it is from and whether it is complete: where it is not, ask again later.
Changes are shown as patches first; apply_edit writes one."""


def build(workspace: Workspace, hops: kit.Hops | None = None) -> kit.App:
    """The adapter over a workspace, which is closed with it. `hops` are those that its servers are reached over."""
    finder = Finder(workspace)
    looking, judging, changing = Navigation(finder), Checking(workspace), Changing(finder)
    names = [service.name for service in workspace.services]
    about = _ABOUT.format(
        root=workspace.disk.root, names=" and ".join(names), s="s" if len(names) == 1 else ""
    )
    app = kit.App("tieline-lsp", VERSION, instructions=about, hops=hops)
    readers = (
        looking.definition,
        looking.references,
        looking.hover,
        looking.document_symbols,
        looking.workspace_symbols,
        looking.call_hierarchy,
        judging.diagnostics,
        judging.simulate_edit,
        changing.rename,
        changing.code_action,
        changing.format,
    )
    for reader in readers:
        app.tool(read_only=True)(reader)
    app.tool(destructive=True)(changing.apply_edit)

    @app.tool(read_only=True)
    async def list_servers() -> Servers:
        """List the language servers of the workspace, what they read and whether they run."""
        states = [
            ServerState(
                name=each.name,
                version=each.version,
                state=each.state,
                readiness=each.readiness,
                files=[f"*{suffix}" for suffix in each.server.suffixes],
            )
            for each in workspace.services
        ]
        return Servers(root=workspace.disk.root, servers=states)

    del list_servers
    app.on_close(workspace.close)
    return app
