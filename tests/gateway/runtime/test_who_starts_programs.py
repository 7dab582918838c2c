"""Only the supervisor starts programs for the gateway: those of the configuration and of allowed host calls."""

from __future__ import annotations

import ast
from pathlib import Path

GATEWAY = Path(__file__).parents[3] / "gateway"
STARTERS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "Popen", "create_subprocess_exec",
    "create_subprocess_shell", "run", "call", "check_call", "check_output"}  # fmt: skip
MODULES = {"os", "subprocess", "asyncio"}


def starts(path: Path) -> list[str]:
    """The calls of a module that start a program: `subprocess.run` and the like."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id in MODULES:
                name = f"{owner.id}.{node.func.attr}"
                if (
                    node.func.attr in STARTERS or node.func.attr.startswith(("exec", "spawn"))
                ) and name != "asyncio.run":
                    found.append(name)
    return sorted(found)


def test_programs_are_started_by_the_tether_and_its_keeper_alone() -> None:
    found = {path.relative_to(GATEWAY).as_posix(): starts(path) for path in GATEWAY.rglob("*.py")}
    found = {path: calls for path, calls in found.items() if calls}
    # The demo, the benchmark, the trying of a user's own command and pytest's plugin are programs of their own: nothing
    # that listens runs in them.
    for path in [path for path in found if path.startswith(("cli/", "testing/", "bench/"))]:
        assert path.startswith("bench/") or Path(path).stem.split("_")[0] in ("demo", "trying", "plugin"), (
            path
        )
        del found[path]
    assert found == {
        "runtime/keeping.py": ["subprocess.Popen"],
        "runtime/tether.py": ["subprocess.Popen"],
        "runtime/keeper.py": ["os.execve", "os.fork"],
    }


def test_a_command_comes_from_the_configuration_or_a_host_call_alone() -> None:
    makers: list[tuple[str, str]] = []
    for path in GATEWAY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PeerSpec":
                (command,) = [word.value for word in node.keywords if word.arg == "command"]
                makers.append((path.relative_to(GATEWAY).as_posix(), ast.unparse(command)))
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("PeerConfig", "Config"):
                # What makes a configuration: the reading of files, and the command line.
                assert path.relative_to(GATEWAY).parts[0] in ("config", "cli", "bench"), path
    assert sorted(makers) == [
        ("runtime/host/commands.py", "command"),
        ("runtime/spawning.py", "tuple(config.command)"),
    ]
