"""From requests to prompts: tools and calls in the model's dialect, then its chat template."""

from __future__ import annotations

import threading
from typing import Final

from pantheon.engine.errors import InvalidRequest
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.tokenizer import ChatTokenizer, PromptTokens, TemplateError, TokenizerError
from pantheon.engine.tools import Dialect, WrittenTurns, render_conversation

_LARGE_PROMPT_CHARS: Final = 1 << 18
"""A conversation over this size is rendered and encoded alone: each takes much memory for it."""


class PromptWriter:
    """Writes the prompts of one model. Safe to use from several threads.

    Attributes:
        turns: how the model wrote its turns with calls, in which they come back.
    """

    def __init__(self, chat: ChatTokenizer, dialect: Dialect, *, thinking_default: bool) -> None:
        """Write with a model's template and dialect.

        Args:
            thinking_default: see `EngineConfig`.
        """
        self._chat = chat
        self._dialect = dialect
        self._thinking_default = thinking_default
        self.turns = WrittenTurns()
        self._large_prompt = threading.Lock()

    def encode(self, request: CompletionRequest) -> PromptTokens:
        """The prompt of a request.

        Raises:
            InvalidRequest: the template refuses the conversation, or it renders to nothing.
        """
        tools = () if request.tool_use is None else request.tool_use.tools
        messages = render_conversation(request.messages, tools, self._dialect, self.turns.text_of)
        if sum(len(message["content"]) for message in messages) <= _LARGE_PROMPT_CHARS:
            return self._encode(messages, request)
        with self._large_prompt:
            return self._encode(messages, request)

    def thinks(self, request: CompletionRequest) -> bool:
        """Whether the answer may think first, where the template has think blocks."""
        asked = request.enable_thinking
        return self._thinking_default if asked is None else asked

    def _encode(
        self, messages: tuple[dict[str, object], ...], request: CompletionRequest
    ) -> PromptTokens:
        variables = {"enable_thinking": self.thinks(request)}
        try:
            prompt = self._chat.encode_chat(messages, template_kwargs=variables)
        except (TemplateError, TokenizerError) as error:
            raise InvalidRequest(f"the conversation cannot be rendered: {error}") from error
        if not prompt.ids:
            raise InvalidRequest("the conversation must render to at least one token, got none")
        return prompt
