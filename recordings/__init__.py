"""Replayable frames: what was said, on disk, exactly. Imports nothing of ours."""
