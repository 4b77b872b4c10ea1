"""One prompt on its way through the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from pantheon.engine.cache import Lease, Session


@dataclass(slots=True, eq=False)
class Sequence:
    """A prompt, what was planned of it, and what it holds. Only the scheduler changes it.

    Attributes:
        prompt: token ids, at least one.
        limit: most tokens to sample, at least one.
        queued_at: the caller's clock, in seconds, when it was submitted.
        session: whose cache it resumes from and is kept in; None reuses and leaves nothing.
        answer_ends: numbers of leading tokens at which an earlier answer ends, rising.
        row: its decode row while it is admitted.
        lease: the pages it holds and is promised while it is admitted.
        computed: leading tokens whose KV is cached or computed by some planned step.
        sampled: tokens that planned steps sample.
        cached: prompt tokens that need not be computed, known once it is admitted.
        over: True once it gave row and pages back; steps planned before are void.
    """

    prompt: tuple[int, ...]
    limit: int
    queued_at: float
    session: Session | None = None
    answer_ends: tuple[int, ...] = ()
    row: int | None = None
    lease: Lease | None = None
    computed: int = 0
    sampled: int = 0
    cached: int = 0
    over: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for an empty prompt or a limit below one."""
        if not self.prompt or self.limit < 1:
            raise ValueError(
                "a sequence needs a prompt and a limit of at least one token, "
                f"got {len(self.prompt)} and {self.limit}"
            )

    @property
    def pages(self) -> tuple[int, ...]:
        """The pages that it holds, in order."""
        return () if self.lease is None else self.lease.pages

    @property
    def most_held(self) -> int:
        """Most tokens whose KV it can come to hold: the last one sampled is never fed."""
        return len(self.prompt) + self.limit - 1

    @property
    def conflict(self) -> bool:
        """Whether it displaces another conversation of its session."""
        return self.lease is not None and self.lease.conflict
