"""The broker between an agent core and its peers.

`protocol` says what may cross the wire, `calls` decides (both pure); `runtime` waits, `serve` puts a gateway
together, `cli` is what people type. Imports nothing here, so that an adapter may load `gateway.protocol` alone.
"""

__version__ = "0.1.0"
