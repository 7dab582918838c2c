"""What a command gets of the environment, what is kept of its output, and how its end is numbered."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.host.command_calls import ExecCall, Options, Output, Stream, environment, exit_code


def test_a_command_inherits_what_finds_programs_and_no_secret() -> None:
    ours = {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "API_KEY": "secret", "AWS_SECRET": "secret"}
    assert environment(ours, {"MINE": "1", "PATH": "/opt"}) == {
        "PATH": "/opt", "HOME": "/root", "LC_ALL": "C", "MINE": "1",
    }  # fmt: skip


@pytest.mark.parametrize("given", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0"}])
def test_what_no_environment_can_hold_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="no name"):
        environment({}, given)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, None),
        ({"timeout": 1500}, 1.5),
        ({"timeoutMs": 20}, 0.02),
        ({"timeout_ms": 7000, "timeout": 9000}, 7),
    ],
)
def test_every_spelling_of_the_time_is_read_in_milliseconds(
    options: dict[str, float], seconds: float | None
) -> None:
    assert msgspec.convert(options, Options).limit_s == seconds


@pytest.mark.parametrize(
    "params",
    [{}, {"cmd": ""}, {"cmd": "ls", "args": "-l"}, {"cmd": "ls", "args": [1]},
     {"cmd": "ls", "options": {"timeout": 0}}, {"cmd": "ls", "options": {"timeout": -1}},
     {"cmd": "ls", "options": {"maxBuffer": -1}}, {"cmd": "ls", "options": {"env": {"A": 1}}}],
)  # fmt: skip
def test_params_of_another_form_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(params, ExecCall, strict=True)


def test_an_end_by_a_signal_is_numbered_as_a_shell_does() -> None:
    assert (exit_code(3, None), exit_code(None, 9), exit_code(None, 15), exit_code(None, None)) == (
        3,
        137,
        143,
        1,
    )


@given(
    st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=12)), max_size=12),
    st.integers(0, 60),
)
def test_what_is_kept_is_the_beginning_of_what_came_whatever_the_pieces(
    pieces: list[tuple[Stream, bytes]], most: int
) -> None:
    output = Output(most)
    kept: dict[Stream, str] = {"stdout": "", "stderr": ""}
    for stream, data in pieces:
        kept[stream] += output.text(stream, data)
    for stream in kept:
        kept[stream] += output.rest(stream)
    total = sum(len(data) for _, data in pieces)
    assert output.is_cut == (total > most)
    for stream, text in kept.items():
        whole = b"".join(data for each, data in pieces if each == stream).decode(errors="replace")
        assert whole.startswith(text) if output.is_cut else whole == text
