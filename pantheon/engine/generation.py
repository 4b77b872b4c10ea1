"""One request while the engine works on it."""

from __future__ import annotations

from dataclasses import dataclass

from pantheon.engine.answer import Answer
from pantheon.engine.completion import EventStream
from pantheon.engine.events import Finished, TextDelta, Usage
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.scheduler import Sequence


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """A sequence, how its tokens are chosen, what they become, and who is told.

    Attributes:
        kv_cap: the effective window in tokens, reported at the end.
    """

    sequence: Sequence
    sampling: RowSampling
    answer: Answer
    stream: EventStream
    kv_cap: int

    def take(self, token_id: int) -> bool:
        """Take a sampled token and tell the handler; True when the answer is complete."""
        step = self.answer.push(token_id)
        if step.text:
            self.stream.put(TextDelta(step.text))
        if step.finish_reason is None:
            return False
        prompt_tokens = len(self.sequence.prompt)
        usage = Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=self.answer.tokens,
            cached_tokens=0,
            # The last token was sampled and never fed.
            kv_used=prompt_tokens + self.answer.tokens - 1,
            kv_cap=self.kv_cap,
        )
        self.stream.put(Finished(step.finish_reason, usage))
        return True
