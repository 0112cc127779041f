"""Stub replaced below."""
from dwindle.attention.backends.call import Call
def objection(call: Call) -> str | None:
    return "not there"
def attention(call): ...
