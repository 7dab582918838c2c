"""The Pi dialect: the life of a connection, and its words in MCP's. Read `extension.py` first. Pure."""
