"""One prompt on its way through the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Sequence:
    """A prompt, what was planned of it, and what it holds. Only the scheduler changes it.

    Attributes:
        prompt: token ids, at least one.
        limit: most tokens to sample, at least one.
        queued_at: the caller's clock, in seconds, when it was submitted.
        row: its decode row while it is admitted.
        pages: the KV pages it holds while it is admitted, enough for prompt and limit.
        computed: leading tokens whose KV some planned step computes.
        sampled: tokens that planned steps sample.
        over: True once it gave row and pages back; steps planned before are void.
    """

    prompt: tuple[int, ...]
    limit: int
    queued_at: float
    row: int | None = None
    pages: tuple[int, ...] = field(default=())
    computed: int = 0
    sampled: int = 0
    over: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for an empty prompt or a limit below one."""
        if not self.prompt or self.limit < 1:
            raise ValueError(
                "a sequence needs a prompt and a limit of at least one token, "
                f"got {len(self.prompt)} and {self.limit}"
            )

    @property
    def most_held(self) -> int:
        """Most tokens whose KV it can come to hold: the last one sampled is never fed."""
        return len(self.prompt) + self.limit - 1
