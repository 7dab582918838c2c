"""Real language servers, each with its quirk: loading, code units, push and pull, the shapes of edits."""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial
from pathlib import Path

import msgspec
import psutil
import pytest

from adapters import kit
from adapters.lsp.answer import Limits
from adapters.lsp.choice import choose
from adapters.lsp.servers import PRESETS
from tests import tooling
from tests.adapters.kit_client import run as bounded
from tests.adapters.lsp.tools import Heard, Json, over, spots

run = partial(bounded, seconds=55.0)
PATIENT = Limits(answer_s=60.0, whole_s=60.0)
EMOJI = "😀 e\u0301"
"""Two code units in UTF-16, four in UTF-8; and a letter with a combining mark, which is two characters."""


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return write(
        tmp_path,
        {
            "shop/__init__.py": "",
            "shop/money.py": (
                "import os\n\n\nclass Money:\n    def plus(self, other: 'Money') -> 'Money':\n        return other\n"
            ),
            "shop/till.py": (
                "from shop.money import Money\n\n\ndef total(a: Money, b: Money) -> Money:\n"
                f'    "{EMOJI}"; return a.plus(b)\n\n\nWRONG: int = "{EMOJI}"\n'
            ),
        },
    )


def running(word: str) -> list[psutil.Process]:
    """The processes below this one that have a word in their command lines."""
    found: list[psutil.Process] = []
    for each in psutil.Process().children(recursive=True):
        # One that has ended meanwhile has no command line any more.
        with contextlib.suppress(psutil.Error):
            if word in " ".join(each.cmdline()):
                found.append(each)
    return found


def said(found: Json) -> list[tuple[str, str, bool]]:
    assert all(each["version"] for each in found["servers"]), "every result says a version"
    return [(each["name"], each["readiness"], each["complete"]) for each in found["servers"]]


LINE = f'    "{EMOJI}"; return a.plus(b)'
COLUMN = LINE.index("plus") + 1


@pytest.mark.parametrize("name", ["ty", "jedi", "basedpyright"])
def test_three_servers_of_one_language_agree_in_three_encodings_and_three_shapes_of_edits(
    python: Path, name: str
) -> None:
    async def work() -> None:
        async with over(python, choose([name], None), PATIENT) as ask:
            uses = await ask("references", path="shop/money.py", symbol="Money.plus")
            assert spots(uses) == ["shop/money.py:5:9", f"shop/till.py:5:{COLUMN}"]
            assert uses["places"][1]["text"] == LINE
            assert said(uses) == [(name, "ready", True)]
            there = await ask("definition", path="shop/till.py", line=5, column=COLUMN + 3)
            assert spots(there) == ["shop/money.py:5:9"]
            # jedi sends one edit for each letter that differs, basedpyright versions, ty none.
            renamed = await ask("rename", path="shop/till.py", line=5, symbol="plus", new_name="pluck")
            assert renamed["files"] == ["shop/money.py", "shop/till.py"]
            assert f"-{LINE}\n+{LINE.replace('plus', 'pluck')}" in renamed["diff"]
            assert "pluck" not in (python / "shop/money.py").read_text()
            await ask("apply_edit", plan=renamed["plan"])
            assert LINE.replace("plus", "pluck") in (python / "shop/till.py").read_text()
            after = await ask("references", symbol="Money.pluck")
            assert spots(after) == spots(uses)

    run(work())


def test_what_is_wrong_is_said_by_all_servers_of_a_file_and_fresh_after_every_change(python: Path) -> None:
    async def work() -> None:
        async with over(python, choose(["ty", "ruff"], None), PATIENT) as ask:
            heard = Heard()
            found = await ask("diagnostics", heard)
            assert [(each["path"], each["line"], each["server"]) for each in found["diagnostics"]] == [
                ("shop/money.py", 1, "ruff"),
                ("shop/till.py", 8, "ty"),
            ]
            assert said(found) == [("ty", "ready", True), ("ruff", "ready", True)]
            assert [line for line in heard.lines if line.endswith(".py")] == [
                "shop/__init__.py",
                "shop/money.py",
                "shop/till.py",
            ]
            [wrong] = (await ask("diagnostics", path="shop/till.py", severity="error"))["diagnostics"]
            assert (wrong["line"], wrong["text"]) == (8, f'WRONG: int = "{EMOJI}"')

            till = python / "shop/till.py"
            simulated = await ask("simulate_edit", path="shop/till.py", old=": int", new=": str")
            assert [each["line"] for each in simulated["removed"]] == [8]
            assert (simulated["added"], simulated["remaining"]) == ([], 0)
            # An edit that breaks another file, which nobody writes.
            broken = await ask(
                "simulate_edit", path="shop/money.py", old="def plus", new="def minus", also=["shop/till.py"]
            )
            assert [(each["path"], each["line"]) for each in broken["added"]] == [("shop/till.py", 5)]
            assert len((await ask("diagnostics"))["diagnostics"]) == 2
            till.write_text(till.read_text().replace(": int", ": str"))
            assert (await ask("diagnostics", path="shop", severity="error"))["total"] == 0

    run(work())


def test_ruff_offers_fixes_and_formats_and_nothing_is_written_before_it_is_applied(python: Path) -> None:
    async def work() -> None:
        async with over(python, choose(["ty", "ruff"], None), PATIENT) as ask:
            money = python / "shop/money.py"
            offers = await ask("code_action", path="shop/money.py", line=1, kind="quickfix")
            fix = next(each for each in offers["actions"] if "Remove unused import" in each["title"])
            assert (fix["server"], fix["files"]) == ("ruff", ["shop/money.py"])
            assert fix["diff"].splitlines()[4] == "-import os"
            formatted = await ask("format", path="shop/till.py")
            assert [each["name"] for each in formatted["servers"]] == ["ruff"], "ty formats nothing"
            assert f'+    "{EMOJI}"\n+    return a.plus(b)' in formatted["diff"]
            assert money.read_text().startswith("import os")
            await ask("apply_edit", plan=fix["plan"])
            assert not money.read_text().startswith("import os")
            # What was shown is for a file that has changed since.
            till = python / "shop/till.py"
            till.write_text("# new\n" + till.read_text())
            with pytest.raises(kit.ToolError, match="not as it was when this was planned"):
                await ask("apply_edit", plan=formatted["plan"])

    run(work())


def test_jedi_says_what_it_does_not_see(tmp_path: Path) -> None:
    files = {f"m{number:02}.py": "import a\n\na.f()\n" for number in range(40)}
    write(tmp_path, files | {"a.py": "def f() -> None: ...\n"})

    async def work() -> None:
        async with over(tmp_path, choose(["jedi"], None), PATIENT) as ask:
            uses = await ask("references", path="a.py", symbol="f")
            assert uses["complete"] is False
            assert "jedi looks at no more than 30 of the 41 files" in uses["shown"]
            assert uses["total"] < 41, "a server that has learnt to see all needs no such note"

    run(work())


@pytest.fixture
def c(tmp_path: Path) -> Path:
    arguments = '"arguments":["c++","-std=c++17","-c"'
    units = [
        f'{{"directory":"{tmp_path}","file":"{name}",{arguments},"{name}"]}}'
        for name in ("money.cc", "till.cc")
    ]
    return write(
        tmp_path,
        {
            "money.h": "#pragma once\nstruct Money { long cents; Money plus(Money other) const; };\n",
            "money.cc": '#include "money.h"\nMoney Money::plus(Money other) const { return {cents + other.cents}; }\n',
            "till.cc": (
                f'#include "money.h"\nconst char *hi = "{EMOJI}"; Money sum(Money a, Money b) {{ return a.plus(b); }}\n'
                "int wrong() { return hi; }\n"
            ),
            "compile_commands.json": f"[{','.join(units)}]",
        },
    )


def test_clangd_is_asked_when_its_index_is_there_and_its_pushes_are_waited_for(c: Path) -> None:
    async def work() -> None:
        async with over(c, choose(["clangd"], None), PATIENT) as ask:
            heard = Heard()
            line = (c / "till.cc").read_text().splitlines()[1]
            uses = await ask("references", heard, path="money.h", symbol="plus")
            assert spots(uses) == ["money.cc:2:14", "money.h:2:34", f"till.cc:2:{line.index('plus') + 1}"]
            assert said(uses) == [("clangd", "ready", True)]
            assert any("index" in each for each in heard.lines)
            assert spots(await ask("definition", symbol="Money::plus")) == ["money.h:2:34"]
            calls = await ask("call_hierarchy", path="money.h", symbol="plus")
            assert [(each["name"], each["place"]["path"]) for each in calls["calls"]] == [("sum", "till.cc")]
            [wrong] = (await ask("diagnostics"))["diagnostics"]
            assert (wrong["path"], wrong["line"], wrong["code"]) == ("till.cc", 3, "init_conversion_failed")
            (c / "till.cc").write_text((c / "till.cc").read_text().replace("int wrong", "auto wrong"))
            fixed = await ask("diagnostics", path="till.cc")
            assert (fixed["total"], fixed["complete"], fixed["unanswered"]) == (0, True, [])
            broken = await ask(
                "simulate_edit", path="money.h", old="long cents", new="char *cents", also=["money.cc"]
            )
            assert broken["complete"] is False
            assert "clangd judges other files by what of this one is on the disk" in broken["shown"]

    run(work())


def test_clangd_without_a_compilation_database_says_that_it_knows_no_other_file(c: Path) -> None:
    (c / "compile_commands.json").unlink()

    async def work() -> None:
        async with over(c, choose(["clangd"], None), PATIENT) as ask:
            uses = await ask("references", path="money.h", symbol="plus")
            assert uses["complete"] is False
            assert "clangd finds no compile_commands.json" in uses["shown"]

    run(work())


def test_typescript_is_not_believed_before_its_project_is_loaded(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "tsconfig.json": '{ "compilerOptions": { "strict": true, "noEmit": true, "types": [] } }',
            "src/money.ts": (
                "export class Money {\n  constructor(readonly cents: number) {}\n"
                "  plus(other: Money): Money { return other; }\n}\n"
            ),
            "src/till.ts": (
                f'import {{ Money }} from "./money";\nexport const hi = "{EMOJI}"; '
                'export const price = new Money("2");\n'
                "export function sum(a: Money, b: Money): Money { return a.plus(b); }\n"
            ),
        },
    )
    command = f"{tooling.node()} {tooling.script('typescript-language-server')} --stdio"

    async def work() -> None:
        async with over(root, choose([f"typescript={command}"], None), PATIENT) as ask:
            heard, lines = Heard(), (root / "src/till.ts").read_text().splitlines()
            uses = await ask("references", heard, path="src/money.ts", symbol="Money.plus")
            assert spots(uses) == ["src/money.ts:3:3", f"src/till.ts:3:{lines[2].index('plus') + 1}"]
            assert uses["servers"][0]["version"].startswith("TypeScript 5.")
            assert any("Initializing" in each for each in heard.lines)
            price = await ask("definition", path="src/till.ts", line=2, symbol="Money")
            assert spots(price)[0] == "src/money.ts:1:14"
            [wrong] = (await ask("diagnostics", severity="error"))["diagnostics"]
            assert (wrong["line"], wrong["column"], wrong["code"]) == (2, lines[1].index('"2"') + 1, "2345")
            # A file that was right and stays right: the server pushes nothing, and silence is no answer.
            simulated = await ask(
                "simulate_edit",
                path="src/money.ts",
                old="cents: number",
                new="cents: string",
                also=["src/till.ts"],
            )
            assert [each["path"] for each in simulated["removed"]] == ["src/till.ts"]
            assert (simulated["added"], simulated["complete"]) == ([], True)
            renamed = await ask("rename", symbol="Money.plus", new_name="add")
            assert renamed["files"] == ["src/money.ts", "src/till.ts"]
            [offer] = (
                await ask(
                    "code_action",
                    path="src/till.ts",
                    line=1,
                    title="Convert named imports to namespace import",
                )
            )["actions"]
            assert "+import * as money" in offer["diff"]
        assert running("tsserver") == []

    run(work())


def test_each_file_is_for_its_own_servers(python: Path) -> None:
    write(python, {"main.c": "int main(void) { return 0; }\n", "note.txt": "x\n"})

    async def work() -> None:
        async with over(python, choose(["ty", "ruff", "clangd"], None), PATIENT) as ask:
            assert said(await ask("document_symbols", path="main.c")) == [("clangd", "ready", True)]
            assert said(await ask("document_symbols", path="shop/money.py")) == [("ty", "ready", True)]
            with pytest.raises(
                kit.ToolError, match=r"no language server here reads note\.txt \(ty: \.py, \.pyi"
            ):
                await ask("document_symbols", path="note.txt")
            states = {each["name"]: each["state"] for each in (await ask("list_servers"))["servers"]}
            assert states == {"ty": "running", "ruff": "not started", "clangd": "running"}

    run(work())


def test_two_thousand_files_are_gone_through_in_pages_with_progress_and_bounded_memory(
    tmp_path: Path,
) -> None:
    module = 'from core import Money\n\n\ndef use_{0}(a: Money) -> Money:\n    "{1}"; return a.plus(a)\n'
    files = {f"m{number:04}.py": module.format(number, EMOJI) for number in range(2000)}
    write(
        tmp_path,
        files
        | {"core.py": "class Money:\n    def plus(self, other: object) -> 'Money':\n        return self\n"},
    )

    async def work() -> None:
        async with over(tmp_path, choose(["ty"], None), PATIENT) as ask:
            before = psutil.Process().memory_info().rss
            first = await ask("references", symbol="Money.plus", limit=1000)
            second = await ask("references", symbol="Money.plus", offset=first["next_offset"], limit=1000)
            last = await ask("references", symbol="Money.plus", offset=second["next_offset"], limit=1000)
            assert (first["total"], first["complete"], last["next_offset"]) == (2001, True, None)
            assert len({*spots(first), *spots(second), *spots(last)}) == 2001

            renamed = await ask("rename", symbol="Money.plus", new_name="add")
            assert len(renamed["files"]) == 2001
            assert renamed["diff_complete"] is False
            await ask("apply_edit", plan=renamed["plan"])
            assert all("a.add(a)" in (tmp_path / path).read_text() for path in files)

            heard = Heard()
            checked = await ask("diagnostics", heard, severity="error")
            assert (checked["files"], checked["total"], checked["complete"]) == (2001, 0, True)
            assert heard.lines[-1] == "m1999.py"
            assert len(heard.lines) == 2001
            assert heard.marks == sorted(set(heard.marks))
            [service] = ask.workspace.services
            assert service.open_count <= 64
            assert psutil.Process().memory_info().rss - before < 200 * 1024 * 1024

            going = Heard()
            call = asyncio.create_task(ask("diagnostics", going))
            while not going.lines:
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert len(going.lines) < 2001

    run(work())


def test_a_call_that_is_cancelled_leaves_the_server_as_it_was(python: Path) -> None:
    async def work() -> None:
        async with over(python, choose(["ty"], None), PATIENT) as ask:
            for turns in range(12):
                call = asyncio.create_task(ask("references", path="shop/money.py", symbol="Money"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
            uses = await ask("references", path="shop/money.py", symbol="Money")
            assert (uses["total"], uses["complete"]) == (7, True)

    run(work())


def test_a_server_that_leaves_its_group_of_pipes_open_is_ended_all_the_same(python: Path) -> None:
    # A wrapper of a server, with a child that keeps the pipes, and neither of them ends when its input does.
    script = python / "wrapper.sh"
    script.write_text("#!/bin/sh\ntrap '' TERM\nsleep 600 &\nexec ty server\n")
    script.chmod(0o755)
    path = f"{os.path.dirname(os.path.realpath(psutil.Process().exe()))}:{os.environ['PATH']}"
    command = f"env PATH={tooling.ROOT / '.venv' / 'bin'}:{path} {script}"

    async def work() -> None:
        async with over(python, choose([f"ty={command}"], None), PATIENT) as ask:
            await ask("document_symbols", path="shop/money.py")
            children = psutil.Process().children(recursive=True)
            assert {"sleep"} <= {each.name() for each in children}
        gone, alive = psutil.wait_procs(children, 10)
        assert (len(gone), alive) == (len(children), [])

    run(work())


@pytest.mark.parametrize(("name", "most_open"), [("basedpyright", 4000), ("basedpyright", 2), ("ty", 2)])
def test_files_that_were_closed_are_still_found_or_said_to_be_forgotten(
    tmp_path: Path, name: str, most_open: int
) -> None:
    use = "from core import Money\n\n\ndef use_{0}(a: Money) -> Money:\n    return a.plus(a)\n"
    core = {"core.py": "class Money:\n    def plus(self, other: object) -> 'Money':\n        return self\n"}
    write(tmp_path, core | {f"m{number}.py": use.format(number) for number in range(6)})
    server = msgspec.structs.replace(PRESETS[name], most_open=most_open)
    forgets = name == "basedpyright" and most_open == 2

    async def work() -> None:
        async with over(tmp_path, [server], PATIENT) as ask:
            for turn in range(2):
                found = await ask("workspace_symbols", query="Money.plus")
                uses = await ask("references", path="core.py", symbol="Money.plus")
                if turn and forgets:
                    assert (found["complete"], uses["complete"]) == (False, False)
                    assert "may have forgotten files that were closed" in uses["shown"]
                else:
                    assert (found["total"], found["complete"]) == (1, True)
                    assert (uses["total"], uses["complete"]) == (7, True)
                assert (await ask("diagnostics", severity="error"))["total"] == 0
                assert ask.workspace.services[0].open_count == min(most_open, 7)

    run(work())
