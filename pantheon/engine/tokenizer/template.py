"""The chat template of a model: compiled once, rendered for each request."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from pantheon.engine.tokenizer.budget import MAX_VALUE_CHARS, fresh_budget
from pantheon.engine.tokenizer.errors import TemplateError
from pantheon.engine.tokenizer.sandbox import ChatEnvironment

MAX_SOURCE_CHARS = 1 << 20
MAX_MESSAGE_CHARS = 1000


class ChatTemplate:
    """A compiled template. Rendering is safe from several threads at once.

    Beside what it is given, a template sees `raise_exception`, `strftime_now`, the special tokens
    by name (`bos_token`, ...) and jinja2's built-ins, less a few filters that only pad or decorate
    text. It reaches no file, no other template and no Python internals. One rendering takes at
    most a second of processor time and makes bounded text (see `budget`).
    """

    def __init__(
        self,
        source: str,
        *,
        special_tokens: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        """Compile a template.

        Args:
            source: jinja2 source.
            special_tokens: Texts of special tokens by the name templates use.
            clock: Local time for `strftime_now`.

        Raises:
            TemplateError: the source is too long or does not compile.
        """
        if len(source) > MAX_SOURCE_CHARS:
            raise TemplateError(
                f"chat template may have at most {MAX_SOURCE_CHARS} characters, found {len(source)}"
            )
        self.source = source
        environment = ChatEnvironment()
        environment.globals |= {
            **(special_tokens or {}),
            "raise_exception": _raise_exception,
            "strftime_now": lambda form: clock().strftime(str(form)[:256]),
        }
        try:
            with fresh_budget():
                self._template = environment.from_string(source)
        except Exception as error:  # the source may trip any part of the compiler
            raise TemplateError(f"chat template does not compile: {_describe(error)}") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The prompt for a conversation.

        Args:
            messages: Conversation in order; tool-call arguments as objects.
            add_generation_prompt: End with the opening of an assistant turn.
            tools: Tools as in the request, or None.
            variables: Further variables, such as `enable_thinking`.

        Raises:
            TemplateError: the template refuses the conversation, cannot handle it, or goes beyond
                its bounds.
        """
        try:
            with fresh_budget():
                text = self._template.render(
                    messages=messages,
                    tools=tools,
                    documents=None,
                    add_generation_prompt=add_generation_prompt,
                    **variables,
                )
        except TemplateError:
            raise
        except Exception as error:  # a template is a program: it may fail in any way
            raise TemplateError(f"chat template failed: {_describe(error)}") from error
        if len(text) > MAX_VALUE_CHARS:
            raise TemplateError(
                f"chat template made a prompt of {len(text)} characters; "
                f"at most {MAX_VALUE_CHARS} are accepted"
            )
        return text


def _raise_exception(message: object = "") -> NoReturn:
    raise TemplateError(str(message)[:MAX_MESSAGE_CHARS])


def _describe(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it or its input nests too deeply"
    return f"{type(error).__name__}: {error}"[:MAX_MESSAGE_CHARS]
