"""How bytes get there: whole messages in, whole messages out. Never reads a message, imports nothing of ours."""
