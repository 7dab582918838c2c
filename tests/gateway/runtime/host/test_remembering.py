"""What live decisions are made of: the file of answers on disk, what a program is, and what is known of a call."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.calls.host_call import Hosted
from gateway.config.extensions import ExtensionsConfig
from gateway.config.mistakes import ConfigError
from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.policy.capability import Need
from gateway.policy.decide import Answer, Facts, answered, decide
from gateway.policy.grants import Grant
from gateway.policy.manifest import declaration
from gateway.runtime.host.authority import Authorities, SessionAuthority, signals
from gateway.runtime.host.grant_file import MOST_BYTES, GrantFile
from gateway.runtime.host.identity import Program, Programs

GRANT = Grant(
    extension="x", capability="exec", verdict="allow", scope="always", executable="sha256:" + "0" * 64
)
READ = Need("read", "fs", paths=("a.txt",))


class TestFile:
    def test_an_answer_is_written_for_its_owner_alone_and_read_again(self, tmp_path: Path) -> None:
        path = tmp_path / "state" / "grants.toml"
        GrantFile(path).keep(GRANT)
        assert oct(path.stat().st_mode & 0o777) == "0o600"
        assert [each.capability for each in GrantFile(path).read().grants] == ["exec"]
        assert sorted(each.name for each in path.parent.iterdir()) == [".grants.toml.lock", "grants.toml"]

    def test_what_a_person_has_written_stays_and_what_he_deletes_is_gone_at_once(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "grants.toml"
        file = GrantFile(path)
        file.keep(GRANT)
        path.write_text(path.read_text() + "# mine\n")
        file.keep(Grant(extension="y", capability="read", verdict="deny", scope="always"))
        assert "# mine" in path.read_text()
        assert len(file.read().grants) == 2
        path.unlink()
        assert not file.read().grants

    def test_a_file_that_others_may_write_allows_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "grants.toml"
        GrantFile(path).keep(GRANT)
        path.chmod(0o666)
        with pytest.raises(PermissionError, match="chmod 600"):
            GrantFile(path).read()

    def test_a_file_with_a_mistake_is_not_read_in_part_and_stays_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "grants.toml"
        path.write_text("[[grants]]\nextension = 1\n")
        path.chmod(0o600)
        with pytest.raises(ConfigError):
            GrantFile(path).read()
        with pytest.raises(ConfigError):
            GrantFile(path).keep(GRANT)
        assert path.read_text() == "[[grants]]\nextension = 1\n"

    def test_what_is_no_file_or_no_text_is_an_error_at_once_and_allows_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "grants.toml"
        os.mkfifo(path)
        with pytest.raises(OSError, match="no regular file"):
            GrantFile(path).read()
        path.unlink()
        path.mkdir()
        with pytest.raises(OSError, match="no regular file"):
            GrantFile(path).read()
        path.rmdir()
        path.write_bytes(b"\xff")
        path.chmod(0o600)
        with pytest.raises(ConfigError, match="UTF-8"):
            GrantFile(path).read()
        path.write_bytes(b"#" * (MOST_BYTES + 1))
        with pytest.raises(OSError, match="more than"):
            GrantFile(path).read()

    def test_a_change_that_keeps_size_and_time_is_seen(self, tmp_path: Path) -> None:
        path = tmp_path / "grants.toml"
        file = GrantFile(path)
        file.keep(GRANT)
        file.read()
        before = path.stat()
        path.write_text(path.read_text().replace('"exec"', '"read"'))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        assert [each.capability for each in file.read().grants] == ["read"]


class TestPrograms:
    def test_a_program_that_keeps_its_size_and_time_is_another_one(self, tmp_path: Path) -> None:
        script = tmp_path / "helper.py"
        script.write_text("print(1)")
        programs, command = Programs(), ["python3", "helper.py"]
        first, before = programs.of(command, "", str(tmp_path)), script.stat()
        script.write_text("print(2)")
        os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert programs.of(command, "", str(tmp_path)) != first

    def test_a_program_is_its_words_and_every_file_that_they_name(self, tmp_path: Path) -> None:
        script, data = tmp_path / "helper.py", tmp_path / "other"
        script.write_text("print(1)")
        data.write_text("x")
        programs, command = Programs(), ["python3", "helper.py", "--fast"]
        first = programs.of(command, "", str(tmp_path))
        assert first == programs.of(command, "", str(tmp_path)) == Programs().of(command, "", str(tmp_path))
        assert first.size_bytes == 8
        others = [programs.of(["python3", "helper.py"], "", str(tmp_path))]
        script.write_text("print(2)")
        others.append(programs.of(command, "", str(tmp_path)))
        others.append(programs.of([], "http://127.0.0.1/", None))
        assert len({each.executable for each in (first, *others)}) == 4

    def test_what_an_extension_declares_and_how_big_it_is_are_evidence(self) -> None:
        declared, _ = declaration({"capabilities": ["read", "exec"]})
        assert dict(signals(declared, Program("", 5 * 1024 * 1024))) == {
            "uses_fs": 1000, "uses_exec": 1000, "size_mb": 500,
        }  # fmt: skip
        assert signals(None, Program("", 0)) == ()


class TestAuthority:
    def config(self, folder: Path, **more: Any) -> Config:
        settings = ExtensionsConfig(roots=[str(folder)], grants=str(folder / "grants.toml"), **more)
        return Config(extensions=settings)

    def hosted(self, folder: Path) -> Hosted:
        class Peer:
            config = PeerConfig(command=["python3", "helper.py"], cwd=str(folder))
            registered = None

        class Asked:
            peer = Peer

        return cast("Hosted", Asked)

    def asked(self, authority: SessionAuthority, folder: Path, answer: Answer) -> Any:
        facts, grants = authority.known(self.hosted(folder), Facts(extension="x", need=READ, has_ui=True))
        decision = decide(authority.rules, facts, grants=grants)
        if decision.verdict == "ask":
            decision = answered(decision, answer)
            authority.keep(decision)
        return decision

    def test_an_answer_holds_as_long_as_it_was_given_for(self, tmp_path: Path) -> None:
        (tmp_path / "helper.py").write_text("1")
        whole = Authorities(self.config(tmp_path, policy={"mode": "prompt", "default_caps": []}))
        one, other = whole.of_session(), whole.of_session()
        yes = Answer(allowed=True, keep="session")
        assert self.asked(one, tmp_path, yes).layer == "answer"
        assert self.asked(one, tmp_path, yes).layer == "remembered"
        assert self.asked(other, tmp_path, Answer(allowed=True, keep="project")).layer == "answer"
        assert self.asked(whole.of_session(), tmp_path, yes).layer == "remembered"

        (tmp_path / "helper.py").write_text("2")
        again = self.asked(whole.of_session(), tmp_path, Answer(allowed=False))
        assert again.layer == "answer", "another program is asked for anew"
        assert again.facts.remembered.stale == "executable"

    def test_a_folder_that_is_none_is_told_at_the_start(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"extensions\.roots\[0\]"):
            Authorities(self.config(tmp_path / "none")).need_folders()
        Authorities(self.config(tmp_path)).need_folders()

    def test_a_policy_that_is_wrong_is_told_with_its_place(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"extensions\.policy\.mode"):
            Authorities(self.config(tmp_path, policy={"mode": "lax"}))
