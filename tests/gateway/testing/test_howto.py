"""The page about testing an agent is true: its server and its test are written down and run, without the server too."""

from __future__ import annotations

import re
from pathlib import Path

from tests.gateway.testing.test_plugin import Project
from tests.processes.gateway_kit import ROOT

PAGE = ROOT / "docs" / "howto" / "test-an-agent.md"


def test_the_code_of_the_page_records_once_and_needs_no_server_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    files = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", PAGE.read_text(), re.S))
    assert sorted(files) == ["test_agent.py", "weather_server.py"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    project = Project(tmp_path)

    code, said, outcomes = project.pytest()
    assert (code, outcomes) == (0, {"test_the_warmest_city_is_found": "passed"}), said
    assert (tmp_path / "recordings" / "test_agent" / "test_the_warmest_city_is_found").is_dir()
    (tmp_path / "weather_server.py").unlink()
    code, said, _ = project.pytest(ci=True)
    assert code == 0, said


def test_the_fixture_of_the_page_gives_the_services(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    (fixture,) = [block for block in blocks if "def tieline_services" in block]
    (server,) = [block for block in blocks if "weather_server.py\n" in block]
    (test,) = [block for block in blocks if "# test_agent.py" in block]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(fixture)
    (tmp_path / "weather_server.py").write_text(server)
    (tmp_path / "test_agent.py").write_text(re.sub(r"@pytest\.mark\.tieline.*\n", "", test))

    code, said, _ = Project(tmp_path).pytest()
    assert code == 0, said
