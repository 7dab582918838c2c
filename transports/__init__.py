"""How bytes get there: whole messages in, whole messages out. Reads no message, imports nothing of ours."""
