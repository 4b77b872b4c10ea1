"""Errors of the tokenizer and of the chat template."""


class TokenizerError(ValueError):
    """A vocabulary is damaged or of a kind that is not supported, or a text cannot be encoded."""


class TemplateError(ValueError):
    """A chat template is missing, does not compile, refuses a conversation, or goes beyond its
    bounds. For a refusal by the template (`raise_exception`) the message is the template's own."""
