"""gopls, where it and a Go are on the path: they come with no package of Python or Node, so that CI has them not.

Tried with gopls of golang.org/x/tools 0.5 and Go 1.19, as Debian 12 has them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from adapters.lsp.answer import Limits
from adapters.lsp.choice import choose
from tests.adapters.lsp.test_service import run
from tests.adapters.lsp.tools import over, spots

pytestmark = pytest.mark.skipif(
    not (shutil.which("gopls") and shutil.which("go")),
    reason="needs `gopls` and `go` on the path (Debian: apt-get install gopls)",
)
FILES = {
    "go.mod": "module shop\n\ngo 1.19\n",
    "money.go": "package shop\n\ntype Money int\n\nfunc (m *Money) Plus(other Money) Money { return *m + other }\n",
    "till/till.go": (
        'package till\n\nimport "shop"\n\nfunc Sum(all []shop.Money) shop.Money {\n\ttotal := shop.Money(0)\n'
        '\tfor _, each := range all {\n\t\t_ = "\N{GRINNING FACE}e\u0301"; total = total.Plus(each)\n\t}\n'
        "\treturn total\n}\n"
    ),
}


def test_gopls_is_waited_for_names_methods_its_own_way_and_renames_over_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "work"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in ("GOCACHE", "GOPATH"):
        monkeypatch.setenv(name, str(tmp_path / name))

    async def work() -> None:
        async with over(root, choose(["gopls"], None), Limits(answer_s=60, whole_s=60)) as ask:
            for named in ({"symbol": "Money.Plus"}, {"symbol": "Money.Plus", "path": "money.go"}):
                found = await ask("references", **named)
                assert (spots(found), found["complete"]) == (["money.go:5:17", "till/till.go:8:28"], True)
                assert found["servers"][0]["readiness"] == "ready"
            assert "func Sum" in (await ask("format", path="till/till.go"))["diff"]
            [caller] = (await ask("call_hierarchy", symbol="Money.Plus"))["calls"]
            assert (caller["name"], caller["place"]["path"]) == ("Sum", "till/till.go")
            broken = await ask(
                "simulate_edit", path="money.go", old=") Plus(", new=") Add(", also=["till/till.go"]
            )
            assert [(each["path"], each["line"]) for each in broken["added"]] == [("till/till.go", 8)]
            plan = await ask("rename", symbol="Money.Plus", new_name="Add")
            assert plan["files"] == ["money.go", "till/till.go"]
            await ask("apply_edit", plan=plan["plan"])
            assert "total = total.Add(each)" in (root / "till/till.go").read_text()
            assert (await ask("diagnostics"))["total"] == 0
            (root / "till/till.go").write_text(FILES["till/till.go"])
            wrong = (await ask("diagnostics", severity="error"))["diagnostics"]
            assert [(each["path"], each["line"]) for each in wrong] == [("till/till.go", 8)]

    run(work())
