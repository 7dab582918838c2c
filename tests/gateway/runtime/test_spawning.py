"""Programs that are to be a peer: where they are looked for, and what is said where they cannot be started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gateway.runtime.keeping import keeper_works
from gateway.runtime.spawning import PeerSpec, ProcessLimits, SpawnError
from gateway.runtime.supervisor import PeerProcess
from tests.gateway.runtime.process_kit import (
    Listener,
    both_ways,
    children_of_ours,
    end_of,
    environment,
    open_descriptors,
    run,
    spec,
    until,
)

pytestmark = pytest.mark.skipif(not keeper_works(), reason="needs Linux with /proc")


def test_the_program_is_looked_for_in_the_peers_own_path(tmp_path: Path) -> None:
    script = tmp_path / "my-server"
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)

    async def main() -> None:
        path = {"PATH": f"{tmp_path}:{os.defpath}"}
        given = PeerSpec(command=("my-server",), environment=environment(**path))
        process = await PeerProcess.start(given, Listener())
        assert (await end_of(process)).code == 7
        assert shutil.which("my-server") is None

    run(main())


class TestWhatCannotBeStarted:
    """Every refusal names the command, the reason and what to do; nothing is left of the attempt."""

    def refused(self, *command: str, directory: str | None = None, keeper: bool = True) -> SpawnError:
        async def main() -> SpawnError:
            before = open_descriptors()
            others = children_of_ours()
            listener = Listener()
            with pytest.raises(SpawnError) as caught:
                await PeerProcess.start(spec(*command, directory=directory, keeper=keeper), listener)
            await until(lambda: open_descriptors() == before, "giving back of descriptors")
            assert children_of_ours(but=others) == []
            assert listener.exits == []
            return caught.value

        return run(main())

    def test_an_unknown_command(self) -> None:
        fault = self.refused("no-such-command-here")
        assert fault.reason == "not-found"
        assert "no-such-command-here" in str(fault)
        assert "PATH" in str(fault)
        assert fault.details["errno"] == "ENOENT"

    def test_a_shell_line_as_the_program_name(self) -> None:
        assert "separate items" in str(self.refused("cat /etc/hostname"))

    def test_a_missing_file(self, tmp_path: Path) -> None:
        assert self.refused(str(tmp_path / "server")).reason == "not-found"

    def test_a_file_that_is_not_executable(self, tmp_path: Path) -> None:
        script = tmp_path / "server"
        script.write_text("#!/bin/sh\n")
        fault = self.refused(str(script))
        assert fault.reason == "not-executable"
        assert "chmod +x" in str(fault)

    def test_a_directory(self, tmp_path: Path) -> None:
        assert self.refused(str(tmp_path)).reason == "not-executable"

    def test_a_missing_working_directory(self, tmp_path: Path) -> None:
        fault = self.refused("/bin/cat", directory=str(tmp_path / "gone"))
        assert fault.reason == "no-directory"
        assert "cwd" in str(fault)

    @both_ways
    def test_a_script_whose_interpreter_is_missing(self, tmp_path: Path, keeper: bool) -> None:
        script = tmp_path / "server"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        fault = self.refused(str(script), keeper=keeper)
        assert fault.reason == "not-executable"
        assert "interpreter" in str(fault)

    @both_ways
    def test_a_file_that_is_no_program(self, tmp_path: Path, keeper: bool) -> None:
        script = tmp_path / "server"
        script.write_bytes(b"\x00\x01\x02")
        script.chmod(0o755)
        fault = self.refused(str(script), keeper=keeper)
        assert fault.details["errno"] == "ENOEXEC"
        assert "#!" in str(fault)

    @both_ways
    def test_arguments_that_are_too_long(self, keeper: bool) -> None:
        assert "too long" in str(self.refused("/bin/echo", "x" * 3_000_000, keeper=keeper))

    @both_ways
    def test_a_nul_byte_in_an_argument(self, keeper: bool) -> None:
        assert self.refused("/bin/echo", "a\0b", keeper=keeper).reason == "bad-command"

    def test_no_command_at_all(self) -> None:
        assert self.refused().reason == "bad-command"

    def test_arguments_are_never_part_of_the_error(self) -> None:
        fault = self.refused("no-such-command-here", "--token", "hunter2")
        assert "hunter2" not in f"{fault} {fault.details}"

    def test_a_process_limit_without_a_keeper_is_refused_rather_than_ignored(self) -> None:
        async def main() -> None:
            with pytest.raises(SpawnError, match="needs a keeper"):
                await PeerProcess.start(
                    spec("/bin/cat", keeper=False, limits=ProcessLimits(processes=3)), Listener()
                )

        run(main())
