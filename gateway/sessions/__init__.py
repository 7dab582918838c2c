"""Where a conversation stands: the tree of entries that a session file of Pi holds, what leads to its leaf, and what of
that a model sees. All of it is plain data and functions; files are `gateway/runtime/host/session_store.py`'s.
"""
