"""What `extension.json` may say, and how a mistake in it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.config import ConfigError
from gateway.config.extension_manifest import ExtensionManifest, read_extension
from gateway.runtime.extension_files import capability_faults

PATH = "/x/extension.json"


def read(**members: Any) -> tuple[ExtensionManifest, list[str]]:
    document = {"name": "todo", "version": "1", "command": ["python3", "todo.py"], **members}
    return read_extension(json.dumps(document, indent=1).encode(), PATH, capability_faults)


def mistakes(**members: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(**members)
    return [f"{mistake.key} {mistake.message}" for mistake in caught.value.mistakes]


def test_a_command_is_a_list_or_text_with_arguments() -> None:
    assert read()[0].command == ["python3", "todo.py"]
    assert read(command="python3", args=["-u", "todo.py"])[0].command == ["python3", "-u", "todo.py"]
    assert read(command="node")[0].peer(PATH).command == ["node"]


def test_capabilities_are_read_as_a_registration_is() -> None:
    wanted: dict[str, Any] = {
        "schema": "pi.ext.cap.v1",
        "capabilities": [{"capability": "read", "methods": ["tool"]}],
    }

    assert read(capability_manifest=wanted)[0].capability_manifest == wanted
    wanted["capabilities"] = [{"capability": "http", "scope": {"hots": []}}]
    [told] = mistakes(capability_manifest=wanted)
    assert told.startswith("capability_manifest.capabilities[0].scope cannot be read")
    assert mistakes(capability_manifest={"schema": "pi.ext.cap.v2", "capabilities": []}) == [
        "capability_manifest.schema must be `pi.ext.cap.v1`"
    ]


def test_members_of_other_programs_are_told_and_slips_are_mistakes() -> None:
    assert read(engines={"pi": "1"})[1] == [f"{PATH}:8: `engines` is not known here, and does nothing"]
    assert mistakes(vrsion="2") == ["vrsion is not a known key; did you mean `version`?"]


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"name": "no spaces"}, "name must have up to 64 letters, digits, `_` and `-`"),
        ({"command": []}, "command must name a program"),
        ({"command": "python3 todo.py"}, 'command is run without a shell; write `["python3", "todo.py"]`'),
        ({"command": ["a"], "args": ["b"]}, "args belongs to a `command` that is text"),
        ({"env": {"A=B": "1"}}, "env.A=B is not the name and value of a variable"),
        ({"command": ["a\0b"]}, "command may hold no NUL"),
        ({"dialect": "mcp"}, 'dialect must be one of `pi`, found "mcp"'),
    ],
)
def test_what_cannot_be_started_is_a_mistake(members: dict[str, Any], told: str) -> None:
    assert [each.replace('"A=B"', "A=B") for each in mistakes(**members)] == [told]


@pytest.mark.parametrize("data", [b"\xff", b"[]", b"nonsense", b'{"a":' * 100_000, b"1" * 5000])
def test_what_is_no_object_is_told_as_one_mistake(data: bytes) -> None:
    with pytest.raises(ConfigError) as caught:
        read_extension(data, PATH, capability_faults)

    assert len(caught.value.mistakes) == 1


def test_nothing_that_may_be_secret_is_shown() -> None:
    manifest, _ = read(env={"API_TOKEN": "sesame"}, command=["run", "--key=sesame"])

    assert "sesame" not in repr(manifest) + repr(manifest.peer(PATH))
