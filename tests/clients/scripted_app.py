"""`application` for gunicorn: a coding agent's model by script; the same HTTP as `pantheon.app`.

It tells what it is asked by the request alone: without tools it gives the conversation a title;
else it writes a file, has its digest computed, and says which it is. Its two models write calls in
the default dialect and, as its name starts with `ornith`, in JSON's (reference, Tool calling).
"""

from __future__ import annotations

import json
import re
from typing import Any

from pantheon.app import Application
from pantheon.engine import CompletionRequest
from pantheon.engine.testing import Script, ScriptedEngine, scripted_model, tokens_of
from pantheon.settings import Settings

MODELS = ("scripted", "ornith-scripted")
WINDOW = 32768
TITLE = "A greeting in a file"
FILE = "greeting.txt"
GREETING = '# Grüße an "alle" & <b>jeden</b>\n\n\techo \'a\\n\' </parameter> {"x": 1}\n'

_WRITE_CALL = {
    "scripted": f"""I write the file.

<tool_call>
<function=write>
<parameter=filePath>
{FILE}
</parameter>
<parameter=content>
{GREETING}
</parameter>
</function>
</tool_call>""",
    "ornith-scripted": f"""I write the file.

```json
{json.dumps({"name": "write", "arguments": {"filePath": FILE, "content": GREETING}})}
```""",
}
_DIGEST_CALL = {
    "scripted": f"""<tool_call>
<function=bash>
<parameter=command>
sha256sum {FILE}
</parameter>
</function>
</tool_call>""",
    "ornith-scripted": f"""```json
{{"name": "bash", "arguments": {{"command": "sha256sum {FILE}"}}}}
```""",
}


def script(request: CompletionRequest) -> Script:
    """What a request is answered with."""
    return Script(tokens=tokens_of(_answer(request)))


def _answer(request: CompletionRequest) -> str:
    if request.tool_use is None:
        return TITLE
    name = str(request.model)
    results = [message for message in request.messages if message["role"] == "tool"]
    match len(results):
        case 0:
            return _WRITE_CALL[name]
        case 1:
            return _DIGEST_CALL[name]
    digest = re.search(r"\b[0-9a-f]{64}\b", str(results[-1]["content"]))
    return f"The digest is {digest.group()}." if digest else "The result has no digest."


def __getattr__(name: str) -> Any:
    if name != "application":
        raise AttributeError(name)
    models = [scripted_model(model, context_window=WINDOW) for model in MODELS]
    return Application(ScriptedEngine(models, script), Settings.from_environment())
