"""All that a model's vocabulary is made into."""

from __future__ import annotations

from dataclasses import dataclass

from pantheon.engine.constraint import GrammarCompiler
from pantheon.engine.gguf import Metadata
from pantheon.engine.tokenizer import ChatTokenizer, Speller, Tokenizer, Vocabulary


@dataclass(frozen=True, slots=True)
class ModelText:
    """From text to tokens and back, and which tokens a grammar allows.

    Attributes:
        speller: compares a prompt with sampled tokens.
    """

    tokenizer: ChatTokenizer
    compiler: GrammarCompiler
    speller: Speller

    @classmethod
    def of(cls, chat: ChatTokenizer) -> ModelText:
        """What a tokenizer's vocabulary is made into beside it: a second for 150,000 tokens."""
        tokenizer = chat.tokenizer
        speller = Speller(tokenizer.vocabulary, tokenizer.token_bytes)
        return cls(chat, GrammarCompiler(tokenizer), speller)


def read_text(metadata: Metadata) -> ModelText:
    """The text side of a file.

    Raises:
        GGUFError, TokenizerError, TemplateError: the vocabulary or the template is damaged or not
            supported.
    """
    template = metadata.optional_string("tokenizer.chat_template")
    return ModelText.of(ChatTokenizer(Tokenizer(Vocabulary.from_metadata(metadata)), template))
