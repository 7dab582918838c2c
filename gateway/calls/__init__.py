"""The exchange itself: who may say what, who gets it, under which id and name, in which era. Pure.

Read `session.py` first: it is the walk of every message. Nothing here waits; what must wait is written as
generators of steps (`steps.py`) or handed to the `Host` (`ports.py`).
"""
