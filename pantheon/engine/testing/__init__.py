"""An engine without a model: finite, deterministic, no device.

Tests of handlers and HTTP, and fuzzing, run against it. It keeps the contract of
`pantheon.engine.face` in everything that can be seen from outside, rows, queue and sessions
included; only the text comes from a script instead of a forward pass. A token is a word with the
white space before it.
"""

from pantheon.engine.testing.completion import ScriptedCompletion
from pantheon.engine.testing.engine import ScriptedEngine
from pantheon.engine.testing.model import scripted_model
from pantheon.engine.testing.script import Script, echo, scripted_logprob, tokens_of

__all__ = [
    "Script",
    "ScriptedCompletion",
    "ScriptedEngine",
    "echo",
    "scripted_logprob",
    "scripted_model",
    "tokens_of",
]
