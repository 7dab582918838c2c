"""May this happen? Capabilities, manifests, scopes, rules, remembered grants and evidence, and the decision.

Pure: a decision is a function of what is handed in, so that the same facts give the same decision in a replay, in a
test and on another machine. `calls.host_call` enforces what is decided. Read `decide.py` first.
"""
