"""One request while the engine works on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pantheon.engine.answer import Answer
from pantheon.engine.completion import EventStream
from pantheon.engine.constraint import Constraint
from pantheon.engine.draft_budget import Guess
from pantheon.engine.drafting import Drafting
from pantheon.engine.events import Finished, Usage
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.scheduler import Sequence
from pantheon.engine.token_mask import TokenMask


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """A sequence, how its tokens are chosen, what they become, and who is told.

    Attributes:
        kv_cap: tells the effective window in tokens, reported at the end.
        constraint: what decides which tokens may come next; None where all may.
        drafting: guesses its next tokens; None where nothing is guessed.
        sampled: the tokens taken so far.
    """

    sequence: Sequence
    sampling: RowSampling
    answer: Answer
    stream: EventStream
    kv_cap: Callable[[], int]
    constraint: Constraint | None = None
    drafting: Drafting | None = None
    sampled: list[int] = field(default_factory=list)

    def mask(self) -> TokenMask | None:
        """Tokens that may come next; None where all may."""
        return None if self.constraint is None else self.constraint.mask()

    @property
    def waits_for_its_token(self) -> bool:
        """True when what comes next depends on a token that is not read yet."""
        if self.constraint is not None and not self.constraint.free_ahead:
            return True
        return self.drafting is not None and self.drafting.verifies

    @property
    def guess(self) -> Guess | None:
        """What is guessed of its next tokens, which can be drafted once every token is read."""
        return None if self.drafting is None else self.drafting.guess

    def confirms_draft(self, index: int) -> bool:
        """Whether a draft was what plain decoding takes; see `Drafting.confirms`."""
        return self.drafting is not None and self.drafting.confirms(
            index, self.sampled, self.mask()
        )

    def end_step(self) -> None:
        """All tokens that it takes of a step were taken."""
        if self.drafting is not None:
            self.drafting.end_step()

    def take(self, token: SampledToken) -> Finished | None:
        """Take a sampled token and tell the handler what it adds.

        Returns:
            The last event when the answer is complete, for the caller to say once the row is
            free: who hears of the end may send the next request at once.
        """
        self.sampled.append(token.id)
        if self.drafting is not None:
            self.drafting.take(token.id)
        step = self.answer.push(token)
        deltas, reason = step.deltas, step.finish_reason
        if self.constraint is not None:
            self.constraint.accept(token.id)
            if self.constraint.complete and reason == "length":
                # The last token that the limit allows closed the object: nothing was cut.
                reason = "stop"
            elif reason is None and (self.constraint.complete or self.constraint.dead):
                end = self.answer.end("stop")
                deltas, reason = (*deltas, *end.deltas), end.finish_reason
        for delta in deltas:
            self.stream.put(delta)
        if reason is None:
            return None
        constraint = self.constraint
        closed = None if constraint is None else constraint.closed
        relaxed = constraint is not None and constraint.relaxed
        calls = self.answer.calls
        error = None if calls is None else calls.error
        return Finished(reason, self._usage(), closed, relaxed, error)

    def _usage(self) -> Usage:
        prompt_tokens = len(self.sequence.prompt)
        return Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=self.answer.tokens,
            cached_tokens=self.sequence.cached,
            # The last token was sampled and never fed.
            kv_used=prompt_tokens + self.answer.tokens - 1,
            kv_cap=self.kv_cap(),
            session_conflict=self.sequence.conflict,
        )
