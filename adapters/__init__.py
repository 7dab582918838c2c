"""Peers that we ship: separate programs that speak the protocol, never loaded by the gateway."""
