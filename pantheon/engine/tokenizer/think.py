"""Think blocks: which templates have them, and how a template writes one.

Reference, section on `POST /v1/chat/completions`, rows `enable_thinking` and
`messages[].reasoning_content`, and the note on `reasoning_content` of the response.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pantheon.engine.tokenizer.errors import TemplateError
from pantheon.engine.tokenizer.template import ChatTemplate
from pantheon.engine.tokenizer.vocabulary import TokenType, Vocabulary

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"

_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_REASONING, _CONTENT = "\ue000r", "\ue000c"
"""Stand-ins in the conversation that shows how a template writes a block."""
_BLOCK = re.compile(
    rf"{THINK_OPEN}(\s*){_REASONING}(\s*){THINK_CLOSE}(\s*){_CONTENT}",
)


@dataclass(frozen=True, slots=True)
class ThinkStyle:
    """How a think-style template and its vocabulary write a block.

    Attributes:
        open_id, close_id: The tags' tokens where the vocabulary has both as single control or
            user-defined tokens; else both are None and the tags are found in the text.
        after_open, before_close, after_close: Whitespace that the template writes around
            reasoning and after the block.
    """

    open_id: int | None
    close_id: int | None
    after_open: str = "\n"
    before_close: str = "\n"
    after_close: str = "\n\n"

    def block(self, reasoning: str) -> str:
        """A closed block as the template writes it, without newlines at the reasoning's ends."""
        return (
            f"{THINK_OPEN}{self.after_open}{reasoning.strip(chr(10))}"
            f"{self.before_close}{THINK_CLOSE}{self.after_close}"
        )

    @staticmethod
    def opens(prompt: str) -> bool:
        """Whether a rendered prompt ends inside an open block."""
        return prompt.rstrip().endswith(THINK_OPEN)


def think_style(template: ChatTemplate, vocabulary: Vocabulary) -> ThinkStyle | None:
    """The style of a template; None for one that does not name both tags.

    Whitespace around the block is what the template writes into an assistant turn, by rendering
    one; a template that drops reasoning from every turn gets the customary line breaks.
    """
    source = _COMMENT.sub("", template.source)
    if THINK_OPEN not in source or THINK_CLOSE not in source:
        return None
    special = vocabulary.texts(TokenType.CONTROL, TokenType.USER_DEFINED)
    open_id, close_id = special.get(THINK_OPEN), special.get(THINK_CLOSE)
    if open_id is None or close_id is None:
        open_id = close_id = None
    written = _BLOCK.search(_sample(template))
    if written is None:
        return ThinkStyle(open_id, close_id)
    return ThinkStyle(open_id, close_id, written[1], written[2], written[3])


def _sample(template: ChatTemplate) -> str:
    turn = {"role": "assistant", "reasoning_content": _REASONING, "content": _CONTENT}
    try:
        return template.render(
            [{"role": "user", "content": "q"}, turn], add_generation_prompt=False
        )
    except TemplateError:
        # A template that refuses this conversation shows nothing; it may accept others.
        return ""
