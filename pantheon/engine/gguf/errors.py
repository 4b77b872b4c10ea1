"""The one error of the GGUF reader."""


class GGUFError(ValueError):
    """A GGUF file is damaged, unsupported, or lacks what was asked of it.

    The message names the file or key, the rule, what was expected and what was found. It is the
    only exception that reading a file raises, whatever the bytes are.
    """
