"""What may cross the wire: JSON-RPC envelopes, MCP's methods by revision, errors, canonical form. Pure."""
