"""`tieline record` as a client runs it: before a command with all of its surroundings, and before a URL."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gateway.runtime.tokens import bearer_token
from recordings.store import Recording, open_recording
from tests.processes.gateway_kit import (
    ECHO_PEER,
    PATIENCE_S,
    PATIENT_TIELINE,
    PYTHON,
    ROOT,
    TIELINE,
    Message,
    echo,
    house,
    run,
    stdio_program,
    text_of,
)

INFO = {"name": "c", "version": "1"}
HELLO: list[Message] = [
    {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "clientInfo": INFO}},
    {"method": "notifications/initialized"},
]


def bytes_of(recording: Recording) -> bytes:
    return b"\n".join(bytes(recording.body(frame)) for frame in recording)


def test_a_server_behind_a_url_is_recorded_with_headers_whose_secrets_are_not(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> str:
        async with house(tmp_path, {"calc": echo()}, listen={"http": {}}) as here:
            (url,) = [each["url"] for each in here.gateway.addresses()]
            token = bearer_token(state / "token")
            monkeypatch.setenv("TICKET", token)
            arguments = ["record", "--out", str(tmp_path / "out"), "--url", url]
            arguments += ["--header", "Authorization: Bearer ${TICKET}", "--header", "X-Other: plain"]
            async with stdio_program(tmp_path, arguments) as (client, process):
                answer = await client.shake_hands()
                assert answer["result"]["serverInfo"]
                assert text_of(await client.tool("calc__echo", text=f"my ticket is {token}")).endswith(token)
                client.close()
            assert process.returncode == 0, (tmp_path / "stderr.log").read_text()
            return token

    token = run(main())
    recording = open_recording(tmp_path / "out")
    assert [frame.name for frame in recording if frame.method == "tools/call" and frame.way == "core>"]
    said = bytes_of(recording)
    assert b"my ticket is [REDACTED:known:" in said
    assert token.encode() not in said + (tmp_path / "out" / "recording.json").read_bytes()


def test_a_server_behind_a_url_without_the_right_header_is_an_error_and_not_a_hang(
    tmp_path: Path, state: Path
) -> None:
    async def main() -> None:
        async with house(tmp_path, {"calc": echo()}, listen={"http": {}}) as here:
            (url,) = [each["url"] for each in here.gateway.addresses()]
            arguments = [
                "record",
                "--out",
                str(tmp_path / "out"),
                "--url",
                url,
                "--header",
                "Authorization: no",
            ]
            async with stdio_program(tmp_path, arguments) as (client, _):
                await client.shake_hands()
                answer = await client.ask("tools/list")
                assert answer["error"]["data"]["code"] == "denied"

    run(main())


def test_a_server_sees_the_environment_and_the_directory_that_it_would_see_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD_VARIABLE", "seen by the server")
    monkeypatch.setenv("SOME_TOKEN", "canary-in-the-environment")
    says = f'echo "$ODD_VARIABLE, $SOME_TOKEN, $(pwd)" >&2; exec {" ".join([*PYTHON, ECHO_PEER])}'
    command = [*PATIENT_TIELINE, "record", "--out", "out", "--", "sh", "-c", says]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=None,
        input=b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in HELLO),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"seen by the server, canary-in-the-environment, {tmp_path}\n".encode()
    recording = open_recording(tmp_path / "out")
    (line,) = [recording.body(frame) for frame in recording if frame.kind == "raw"]
    assert line.startswith(b"seen by the server, [REDACTED:known:")
    assert line.endswith(f", {tmp_path}".encode())


@pytest.mark.parametrize(
    ("command", "message", "said"),
    [
        (["--", "no-such-server"], "cannot start 'no-such-server': command not found", ["hint: install it"]),
        (
            ["--", *PYTHON, "import sys; print('hello', file=sys.stderr); sys.exit('boom: set API_KEY')"],
            "the server exited with code 1: boom: set API_KEY",
            ["hello\nboom: set API_KEY\n"],
        ),
        (["--url", "http://127.0.0.1:9/mcp"], "cannot connect to http://127.0.0.1:9", ["host and port"]),
    ],
    ids=["absent", "crash", "url"],
)
def test_a_server_that_cannot_be_reached_is_the_answer_to_the_greeting_and_told_on_stderr(
    command: list[str], message: str, said: list[str], tmp_path: Path
) -> None:
    if PYTHON[0] in command:
        command.insert(-1, "-c")

    async def main() -> None:
        arguments = ["record", "--out", str(tmp_path / "out"), *command]
        async with stdio_program(tmp_path, arguments) as (client, process):
            answer = await client.shake_hands()
            assert message in answer["error"]["message"]
            assert answer["error"]["data"]["code"] == "io"
            if "boom" in message:
                assert answer["error"]["data"]["stderr"].endswith("boom: set API_KEY")
            client.close()
        assert process.returncode == 1
        told = (tmp_path / "stderr.log").read_text()
        assert sum(line.startswith("tieline: warning: ") for line in told.splitlines()) == 1
        for each in (message, *said):
            assert each in told

    run(main())
    recording = open_recording(tmp_path / "out")
    assert [frame.way for frame in recording if frame.kind == "error"] == [">core"]


def test_a_recording_that_cannot_be_written_is_told_at_the_start_with_the_right_cause(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [*TIELINE, "record", "--out", str(tmp_path / "file" / "out"), "--", *PYTHON, ECHO_PEER]

    done = subprocess.run(command, cwd=ROOT, input=b"", capture_output=True, timeout=PATIENCE_S, check=False)

    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(
        f"tieline: error: recordings cannot be written to `{tmp_path / 'file'}`".encode()
    )
    assert b"`--out`" in done.stderr
    assert b"disk space" not in done.stderr


@pytest.mark.parametrize("delay_ms", [0, 400])
def test_everything_that_was_asked_before_the_end_of_input_is_answered(delay_ms: int, tmp_path: Path) -> None:
    asked: list[Message] = [
        *HELLO,
        {"id": 2, "method": "tools/list"},
        *(
            {
                "id": number,
                "method": "tools/call",
                "params": {"name": "echo", "arguments": {"text": f"{number}", "delay_ms": delay_ms}},
            }
            for number in range(3, 13)
        ),
    ]
    lines = b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in asked)
    command = [*PATIENT_TIELINE, "record", "--out", str(tmp_path / "out"), "--", *PYTHON, ECHO_PEER]

    done = subprocess.run(
        command, cwd=ROOT, input=lines, capture_output=True, timeout=PATIENCE_S, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")
    answers = {message["id"]: message for message in map(json.loads, done.stdout.splitlines())}
    assert answers.keys() == set(range(1, 13))
    assert all(text_of(answers[number]) == f"{number}" for number in range(3, 13))
    recording = open_recording(tmp_path / "out")
    assert sum(frame.kind == "response" and frame.way == "peer>" for frame in recording) == 12
    assert not [frame for frame in recording if frame.kind == "lost"]


def test_a_server_that_never_answers_does_not_hold_a_client_that_has_said_all_and_ends_us(
    tmp_path: Path,
) -> None:
    lines = b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in HELLO)
    command = [*TIELINE, "record", "--out", str(tmp_path / "out"), "--", "sh", "-c", "exec sleep 600"]

    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as gateway:
        try:
            assert gateway.stdin is not None
            assert gateway.stdout is not None
            assert gateway.stderr is not None
            gateway.stdin.write(lines)
            gateway.stdin.close()
            # It is still starting, and whoever only waits is told so. Clients that wait no longer send a signal.
            assert b"the input has ended; sh may take up to 120 s to start" in gateway.stderr.readline()
            gateway.terminate()
            assert gateway.wait(PATIENCE_S) == 0
            (answer,) = map(json.loads, gateway.stdout.read().splitlines())
            assert (answer["id"], "error" in answer) == (HELLO[0]["id"], True)
        finally:
            gateway.kill()
