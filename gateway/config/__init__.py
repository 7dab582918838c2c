"""What the gateway is told: `tieline.toml`, the files of other clients, secrets, and what changed since.

`model` has the structs, `load` reads files into them and finds every mistake, `diff` compares two. The only
part of the gateway that reads configuration files; it starts nothing and knows nobody. What compares two is imported
from `diff` itself: a start has only one.
"""

from gateway.config.load import for_one_peer, load, parse
from gateway.config.mistakes import ConfigError, Mistake
from gateway.config.model import Config, ListenConfig
from gateway.config.options import ServeOptions
from gateway.config.peer import PeerConfig
from gateway.config.places import accepted_file, find_config, recordings_dir, state_dir

__all__ = [
    "Config",
    "ConfigError",
    "ListenConfig",
    "Mistake",
    "PeerConfig",
    "ServeOptions",
    "accepted_file",
    "find_config",
    "for_one_peer",
    "load",
    "parse",
    "recordings_dir",
    "state_dir",
]
