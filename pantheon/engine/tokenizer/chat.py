"""From a conversation to the token ids of its prompt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pantheon.engine.tokenizer.content import ContentGuard
from pantheon.engine.tokenizer.encoder import Tokenizer
from pantheon.engine.tokenizer.errors import TemplateError
from pantheon.engine.tokenizer.template import ChatTemplate
from pantheon.engine.tokenizer.vocabulary import TokenType, Vocabulary

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
    """

    ids: list[int]
    text: str


class ChatTokenizer:
    """Renders conversations and encodes them, so that no text of a message becomes a control
    token.

    Attributes:
        tokenizer: Encoder and decoder.
        template: The chat template in use.
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
        rendered = self.template.render(
            guarded.value["messages"],
            add_generation_prompt=add_generation_prompt,
            tools=guarded.value["tools"],
            **guarded.value["variables"],
        )
        ids = self.tokenizer.encode_prompt(rendered, guarded.breaks)
        vocabulary = self.tokenizer.vocabulary
        if vocabulary.add_bos and vocabulary.bos is not None and ids[:1] != [vocabulary.bos]:
            ids.insert(0, vocabulary.bos)
        return PromptTokens(ids, rendered.replace(guarded.breaks, ""))


def _named_tokens(vocabulary: Vocabulary) -> dict[str, str]:
    """Texts of special tokens under the names that templates use."""
    named = {
        "bos_token": vocabulary.bos,
        "eos_token": vocabulary.eos,
        "unk_token": vocabulary.unknown,
        "pad_token": vocabulary.padding,
    }
    return {name: vocabulary.tokens[token] for name, token in named.items() if token is not None}
