"""What the gateway is told: `tieline.toml`, the files of other clients, secrets, and what changed since.

`model` has the structs, `load` reads files into them and finds every mistake, `diff` compares two. The only
part of the gateway that reads configuration files; it starts nothing and knows nobody.
"""

from gateway.config.model import Config, ListenConfig, PeerConfig
from gateway.config.options import ServeOptions

__all__ = ["Config", "ListenConfig", "PeerConfig", "ServeOptions"]
