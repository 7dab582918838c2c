"""What is wrong with the settings of host calls is told before anything is decided by them."""

from __future__ import annotations

import pytest

from gateway.config.extensions import ExtensionsConfig
from gateway.config.mistakes import ConfigError
from gateway.config.model import Config
from gateway.runtime.host.authority import Authorities


def test_a_private_host_that_is_no_pattern_is_told_with_its_place() -> None:
    with pytest.raises(ConfigError) as caught:
        Authorities(Config(extensions=ExtensionsConfig(private_hosts=["localhost:3000", "a.*.b"])))
    assert "`extensions.private_hosts[1]` has a `*` that is not the first label" in str(caught.value)


def test_private_hosts_that_are_patterns_are_taken() -> None:
    Authorities(
        Config(extensions=ExtensionsConfig(private_hosts=["localhost:3000", "*.corp.example", "[::1]:80"]))
    )
