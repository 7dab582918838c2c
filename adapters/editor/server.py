"""The tools over an editor, and what it tells of itself.

Owns names, descriptions and resources. The editor is another's.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec

from adapters import kit
from adapters.editor.patch import applied
from adapters.editor.root import Root
from adapters.editor.shapes import Editor, Event, Files, OnEvent, Problem, Problems, Selection, Verdict

Path = Annotated[str, msgspec.Meta(description="A file, relative to the root.")]
Line = Annotated[int, msgspec.Meta(ge=0, description="A line, from 1; 0 for none.")]
SELECTION = "editor://selection"
PROBLEMS = "editor://diagnostics/{+path}"


class Nothing(msgspec.Struct):
    """Nobody is in a file of the root."""

    reason: str = "no file of the root is before the person"


class Desk:
    """The tools. `editor` is set before the first call."""

    def __init__(self, app: kit.App, root: Root) -> None:
        self.editor: Editor
        self._root = root
        self._app = app
        self.listeners: list[OnEvent] = []
        """Who else is told what the editor tells."""

    def happened(self, event: Event, data: dict[str, Any]) -> None:
        """The editor tells something: whoever listens is told."""
        self._app.announce(event, data)
        for listener in self.listeners:
            listener(event, data)
        if event == "selection_changed":
            self._app.updated(SELECTION)
        elif event == "diagnostics_changed":
            self._app.updated(PROBLEMS.replace("{+path}", str(data["path"])))

    async def selection(self) -> Selection | Nothing:
        """What the person has selected in the editor, or where the cursor is."""
        return await self.editor.selection() or Nothing()

    async def open_files(self) -> Files:
        """List the files that are open in the editor, and which of them hold changes that are not saved."""
        return await self.editor.open_files()

    async def diagnostics(self, path: Path | None = None) -> Problems:
        """List the errors and warnings that the editor shows.

        Args:
            path: Only those of this file, which must be open.
        """
        return Problems(await self.editor.diagnostics(path or ""))

    async def open_file(self, path: Path, line: Line = 0, column: Line = 0, end_line: Line = 0) -> str:
        """Show a file to the person, at a line where one is given; lines to `end_line` are selected."""
        await self.editor.open_file(path, line, column, end_line)
        return f"{path} is shown"

    async def save_file(self, path: Path) -> str:
        """Save a file that is open in the editor."""
        saved = await self.editor.save_file(path)
        return f"{path} is saved" if saved else f"{path} had nothing to save"

    async def show_diff(
        self,
        ctx: kit.Context,
        path: Path,
        text: str | None = None,
        patch: str | None = None,
        save: bool = True,  # noqa: FBT001, FBT002 - an argument of a tool
        timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None,
    ) -> Verdict:
        """Show a proposed text beside a file and wait until the person accepts or rejects it.

        Args:
            text: The whole text that the file is to have; this or a patch.
            patch: A unified diff against the file; parts of it that are about other files are passed over.
            save: Write the file once it is accepted.
            timeout_s: Take the proposal away after this long: the decision is then `undecided`.
        """
        if (text is None) == (patch is None):
            raise kit.ToolError("invalid_request", "say either `text` or `patch`")
        if patch is not None:
            text = applied(await asyncio.to_thread(self._root.read, path), patch, path)
        assert text is not None
        ctx.progress(0, 1, "waiting for the person at the editor")
        try:
            async with asyncio.timeout(timeout_s):
                return await self.editor.show_diff(path, text, save=save)
        except TimeoutError:
            return Verdict(
                decision="undecided", path=path, reason=f"nobody has decided within {timeout_s:g} s"
            )

    async def selection_resource(self) -> Selection | Nothing:
        """What is selected in the editor."""
        return await self.selection()

    async def problems_resource(self, path: str) -> list[Problem]:
        """What the editor shows as wrong in a file."""
        return await self.editor.diagnostics(path)


def build(version: str, root: Root) -> tuple[kit.App, Desk]:
    """The adapter; its `Desk` still needs an editor."""
    about = f"The editor of the person, on files beneath {root.path}."
    app = kit.App("tieline-editor", version, instructions=about)
    desk = Desk(app, root)
    for reader in (desk.selection, desk.open_files, desk.diagnostics):
        app.tool(read_only=True)(reader)
    app.tool(desk.open_file)
    app.tool(desk.save_file)
    app.tool(destructive=True)(desk.show_diff)
    json = "application/json"
    app.resource(SELECTION, name="selection", mime_type=json)(desk.selection_resource)
    app.resource(PROBLEMS, name="diagnostics", mime_type=json)(desk.problems_resource)

    async def leave() -> None:
        await desk.editor.close()

    app.on_close(leave)
    return app, desk
