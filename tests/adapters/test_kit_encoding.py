"""Whatever a function gives, its caller is answered: text that is none is made one, and what has no form is a fault."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import kit
from adapters.kit.app import Dialect
from adapters.kit.encoding import encoded, printable
from tests.adapters.kit_app import both
from tests.adapters.kit_client import run

ODD = "n\udcff\N{GRINNING FACE}"
SHOWN = "n\ufffd\N{GRINNING FACE}"


class Named(msgspec.Struct):
    name: str
    thing: Any = None

    def text(self) -> str:
        return self.name


def make() -> kit.App:
    app = kit.App("odd", "1")

    @app.tool
    def give(ctx: kit.Context, how: str) -> Any:
        ctx.progress(1, 2, ODD)
        ctx.log("warning", {"name": ODD})
        app.log.warning(ODD)
        match how:
            case "text":
                return ODD
            case "struct":
                return Named(ODD, {ODD: (ODD, 1)})
            case "object":
                return Named("fine", object())
            case _:
                raise kit.ToolError("io", ODD, path=ODD, cause=OSError(5, "gone"))

    return app


@both
def test_names_that_are_no_text_are_shown_as_far_as_they_are(dialect: Dialect) -> None:
    async def work() -> None:
        async with make().testing(dialect) as ext:
            assert (await ext.call("give", how="text")).text == SHOWN
            found = await ext.call("give", how="struct")
            assert (found.text, found.data) == (SHOWN, {"name": SHOWN, "thing": {SHOWN: [SHOWN, 1]}})
            failed = await ext.call("give", how="fail")
            assert (failed.text, failed.code) == (SHOWN, "io")
            assert SHOWN in str(failed.error)
            assert "[Errno 5] gone" in str(failed.error)
            assert SHOWN in str(ext.progress)
            assert str(ext.logs).count(SHOWN) >= 2

    run(work())


@both
def test_what_has_no_form_is_a_fault_of_the_call_alone(
    dialect: Dialect, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        async with make().testing(dialect) as ext:
            assert (await ext.call("give", how="object")).code == "internal"
            assert (await ext.call("give", how="text")).is_error is False

    run(work())
    assert "TypeError" in capsys.readouterr().err


@given(
    st.recursive(
        st.text(st.characters(categories=["Cs", "L"])) | st.integers(-5, 5) | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a\udc00"), inner, max_size=3),
        max_leaves=8,
    )
)
def test_everything_can_be_said_and_what_could_be_before_is_unchanged(value: Any) -> None:
    said = msgspec.json.decode(encoded(value))
    try:
        assert said == msgspec.json.decode(msgspec.json.encode(value))
    except UnicodeEncodeError:
        assert said == printable(value)
