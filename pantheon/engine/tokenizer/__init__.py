"""Tokenizers and chat templates of GGUF models: text to token ids and back."""

from pantheon.engine.tokenizer.chat import ChatTokenizer, PromptTokens
from pantheon.engine.tokenizer.decoder import IncrementalDecoder
from pantheon.engine.tokenizer.encoder import Tokenizer
from pantheon.engine.tokenizer.errors import TemplateError, TokenizerError
from pantheon.engine.tokenizer.spelling import Speller, spelling
from pantheon.engine.tokenizer.template import ChatTemplate
from pantheon.engine.tokenizer.think import THINK_CLOSE, THINK_OPEN, ThinkStyle
from pantheon.engine.tokenizer.token_bytes import TokenBytes
from pantheon.engine.tokenizer.vocabulary import TokenType, Vocabulary

__all__ = [
    "THINK_CLOSE",
    "THINK_OPEN",
    "ChatTemplate",
    "ChatTokenizer",
    "IncrementalDecoder",
    "PromptTokens",
    "Speller",
    "TemplateError",
    "ThinkStyle",
    "TokenBytes",
    "TokenType",
    "Tokenizer",
    "TokenizerError",
    "Vocabulary",
    "spelling",
]
