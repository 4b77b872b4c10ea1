"""From a conversation to the token ids of its prompt."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pantheon.engine.tokenizer.content import ContentGuard, Guarded
from pantheon.engine.tokenizer.encoder import Tokenizer
from pantheon.engine.tokenizer.errors import TemplateError
from pantheon.engine.tokenizer.replay import insert_reasoning, mark_turns, spell_tags
from pantheon.engine.tokenizer.template import ChatTemplate
from pantheon.engine.tokenizer.think import think_style
from pantheon.engine.tokenizer.vocabulary import TokenType, Vocabulary

_log = logging.getLogger(__name__)

_CHATML = """\
{%- if tools %}{{ raise_exception('this model has no chat template: tools cannot be rendered') }}
{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
_CHATML_TOKENS = ("<|im_start|>", "<|im_end|>")


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """A prompt.

    Attributes:
        ids: Token ids, BOS included where the vocabulary asks for it.
        text: The rendering.
        reasoning_open: Whether it ends inside an open think block, so that the answer begins
            with reasoning.
    """

    ids: list[int]
    text: str
    reasoning_open: bool


class ChatTokenizer:
    """Renders conversations and encodes them, so that no text of a message becomes a control
    token.

    Attributes:
        tokenizer: Encoder and decoder.
        template: The chat template in use.
        think: How the template writes think blocks; None for a template without them.
        writes_bos: Whether the template itself writes the token that begins a text.
        fallback: Whether the model has no template of its own and ChatML is used; worth a log
            line.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template_source: str | None,
        *,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        """Compile the template.

        Args:
            tokenizer: The model's tokenizer.
            template_source: `tokenizer.chat_template` of the file, or None where it has none.
            clock: Local time for templates that write the date.

        Raises:
            TemplateError: the template does not compile, or there is none and the vocabulary
                lacks ChatML's control tokens.
        """
        vocabulary = tokenizer.vocabulary
        self.tokenizer = tokenizer
        self.fallback = template_source is None
        if template_source is None:
            control = vocabulary.texts(TokenType.CONTROL)
            if any(text not in control for text in _CHATML_TOKENS):
                raise TemplateError(
                    "the file has no tokenizer.chat_template, and its vocabulary lacks the "
                    f"control tokens {' and '.join(_CHATML_TOKENS)} of the ChatML format"
                )
            template_source = _CHATML
        self.template = ChatTemplate(
            template_source, special_tokens=_named_tokens(vocabulary), clock=clock
        )
        self.think = think_style(self.template, vocabulary)
        self.writes_bos = _writes_bos(template_source, vocabulary)
        self._guard = ContentGuard(tokenizer.control_texts)

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> PromptTokens:
        """The prompt for a conversation.

        With a think-style template, reasoning_content is rendered in every assistant turn that
        has it (see `replay`); any other turn is what the template makes of it.

        Args:
            messages: Conversation in order: role, content, reasoning_content, tool_calls with
                arguments as objects, tool_call_id. Roles are the caller's to restrict.
            add_generation_prompt: End with the opening of an assistant turn.
            tools: Tools as in the request, or None.
            template_kwargs: Further template variables, such as `enable_thinking`.

        Raises:
            TemplateError: the template refuses the conversation or cannot handle it.
            TokenizerError: a text holds a lone surrogate.
        """
        request = {"messages": messages, "tools": tools, "variables": template_kwargs or {}}
        try:
            guarded = self._guard.guard(request, self.template.source)
        except RecursionError as error:
            raise TemplateError("the conversation nests too deeply") from error
        rendered = guarded.unescape(self._render(guarded, add_generation_prompt))
        spelled = self._spelled(guarded)
        ids = self.tokenizer.encode_prompt(rendered, guarded.breaks, spelled)
        vocabulary = self.tokenizer.vocabulary
        if vocabulary.add_bos and vocabulary.bos is not None and ids[:1] != [vocabulary.bos]:
            ids.insert(0, vocabulary.bos)
        text = rendered.replace(guarded.breaks, "")
        if spelled is not None:
            text = text.replace(spelled, "")
        return PromptTokens(ids, text, self.think is not None and self.think.opens(text))

    def _spelled(self, guarded: Guarded) -> str | None:
        """The character that keeps tags in reasoning from being tokens, if there is one."""
        by_token = self.think is not None and self.think.close_id is not None
        return guarded.unused[0] if by_token and guarded.unused else None

    def _render(self, guarded: Guarded, add_generation_prompt: bool) -> str:
        def render(messages: Sequence[Mapping[str, Any]]) -> str:
            return self.template.render(
                messages,
                add_generation_prompt=add_generation_prompt,
                tools=guarded.value["tools"],
                **guarded.value["variables"],
            )

        messages = guarded.value["messages"]
        # All but a hostile conversation leaves characters unused.
        if self.think is None or len(guarded.unused) < 2:
            return render(messages)
        spelled = self._spelled(guarded)
        if spelled is not None:
            messages = spell_tags(messages, spelled)
        plain = render(messages)
        marked = mark_turns(messages, guarded.unused[1])
        if not marked.reasoning:
            return plain
        complete = insert_reasoning(plain, render(marked.messages), marked, self.think)
        if complete is None:
            _log.warning(
                "the chat template rewrites the beginning of a turn: reasoning_content is "
                "rendered only where the template does so itself"
            )
            return plain
        return complete


def _writes_bos(source: str, vocabulary: Vocabulary) -> bool:
    """Whether a rendering holds what stands for BOS: its own text may be part of any template."""
    sentinel = "\ue000bos\ue001"
    named = {**_named_tokens(vocabulary), "bos_token": sentinel}
    try:
        template = ChatTemplate(source, special_tokens=named)
        return sentinel in template.render([{"role": "user", "content": "a"}])
    except TemplateError:
        return False


def _named_tokens(vocabulary: Vocabulary) -> dict[str, str]:
    """Texts of special tokens under the names that templates use."""
    named = {
        "bos_token": vocabulary.bos,
        "eos_token": vocabulary.eos,
        "unk_token": vocabulary.unknown,
        "pad_token": vocabulary.padding,
    }
    return {name: vocabulary.tokens[token] for name, token in named.items() if token is not None}
