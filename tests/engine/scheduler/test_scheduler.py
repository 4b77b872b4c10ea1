"""Admission, queue and step plans (reference, concurrency and connection model)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pantheon.engine.cache import PagePool, PrefixCache
from pantheon.engine.scheduler import QueueFull, Scheduler, Sequence, StepPlan


def _scheduler(
    rows: int = 2,
    queue_depth: int = 4,
    pages: int = 16,
    chunk: int = 8,
    pace: int = 0,
) -> Scheduler:
    cache = PrefixCache(PagePool(total=pages, page_size=4))
    return Scheduler(rows=rows, queue_depth=queue_depth, chunk=chunk, cache=cache, pace=pace)


def _sequence(prompt: int, limit: int = 4, queued_at: float = 0.0) -> Sequence:
    return Sequence(tuple(range(prompt)), limit, queued_at=queued_at)


def _plan(scheduler: Scheduler) -> StepPlan:
    plan = scheduler.plan()
    assert plan is not None
    return plan


def test_a_prompt_is_prefilled_in_chunks_and_then_decoded_to_its_limit() -> None:
    scheduler = _scheduler()
    sequence = _sequence(prompt=18, limit=3)
    scheduler.submit(sequence)
    chunks = []
    for _ in range(3):
        chunk = _plan(scheduler).prefill
        assert chunk is not None
        chunks.append((chunk.start, len(chunk.tokens)))
    assert chunks == [(0, 8), (8, 8), (16, 1)], "its last token is fed by a decode step"
    fed = [[(row.position, row.fed) for row in _plan(scheduler).decode] for _ in range(3)]
    assert fed == [[(17, 17)], [(18, None)], [(19, None)]]
    assert scheduler.plan() is None
    assert not scheduler.idle, "its last tokens are not read yet"
    scheduler.finish(sequence)
    assert scheduler.idle


def test_a_running_row_decodes_beside_every_chunk_of_a_long_prompt() -> None:
    """Scenario 173: a long prefill freezes no stream."""
    scheduler = _scheduler()
    short, long = _sequence(prompt=2, limit=9), _sequence(prompt=40, limit=1)
    scheduler.submit(short)
    assert _plan(scheduler).decode == ()
    scheduler.submit(long)
    for _ in range(3):
        plan = _plan(scheduler)
        assert plan.prefill is not None and plan.prefill.sequence is long
        assert [row.sequence for row in plan.decode] == [short]


@pytest.mark.parametrize("pace", [0, 1, 3])
def test_the_pace_is_kept_between_chunks(pace: int) -> None:
    """A running row gets pace + 1 decode steps for every chunk (scenario 173)."""
    scheduler = _scheduler(pages=64, pace=pace)
    scheduler.submit(_sequence(prompt=2, limit=60))
    _plan(scheduler)
    long = _sequence(prompt=60, limit=1)
    scheduler.submit(long)
    steps = []
    while long in scheduler.prefilling:
        plan = _plan(scheduler)
        assert len(plan.decode) == 1, "the running row is in every step"
        steps.append(plan.prefill is not None)
    # The chunk before the row decoded owes its steps too.
    assert steps == [*[False] * pace, *([True, *[False] * pace] * 8)[: -pace or None]]


@pytest.mark.parametrize("pace", [1, 3])
def test_a_short_prompt_is_computed_at_once_and_made_up_for(pace: int) -> None:
    """Rows decode in every step; what a short prompt took from them comes before the next."""
    scheduler = _scheduler(pages=200, pace=pace)
    scheduler.submit(_sequence(prompt=2, limit=200))
    _plan(scheduler)
    for _ in range(pace):
        assert _plan(scheduler).prefill is None
    steps = []
    for size in (32, 40):
        prompt = _sequence(prompt=size, limit=1)
        scheduler.submit(prompt)
        while prompt in scheduler.prefilling:
            plan = _plan(scheduler)
            assert len(plan.decode) == 1
            steps.append(plan.prefill is not None)
        scheduler.finish(prompt)
    waited = [False] * (4 * pace)
    assert steps == [True] * 4 + waited + ([True, *[False] * pace] * 5)[: -pace or None]


def test_a_lone_prompt_is_not_held_up_by_the_pace() -> None:
    scheduler = _scheduler(pace=64)
    scheduler.submit(_sequence(prompt=24))
    for _ in range(3):
        assert _plan(scheduler).prefill is not None


@pytest.mark.parametrize("others", [1, 3])
def test_a_short_prompt_waits_for_one_chunk_of_each_other_at_most(others: int) -> None:
    """Scenario 174: it does not starve behind running prefills."""
    scheduler = _scheduler(rows=others + 1, pages=200)
    for _ in range(others):
        scheduler.submit(_sequence(prompt=100))
        _plan(scheduler)
    short = _sequence(prompt=5)
    scheduler.submit(short)
    chunks = 0
    while short in scheduler.prefilling:
        chunks += _plan(scheduler).prefill is not None
    assert chunks <= others + 1


def _order_of_ends(scheduler: Scheduler, sequences: list[Sequence]) -> list[int]:
    ends: list[int] = []
    while len(ends) < len(sequences):
        chunk = _plan(scheduler).prefill
        if chunk is not None and chunk.sequence not in scheduler.prefilling:
            ends.append(sequences.index(chunk.sequence))
    return ends


def test_equal_prompts_end_one_after_another() -> None:
    """Who came first waits for his own prompt alone, and the last no longer than in turns."""
    scheduler = _scheduler(rows=3, pages=200)
    sequences = [_sequence(prompt=24) for _ in range(3)]
    for sequence in sequences:
        scheduler.submit(sequence)
    assert _order_of_ends(scheduler, sequences) == [0, 1, 2]


def test_a_short_prompt_overtakes_and_a_long_one_is_not_left_behind() -> None:
    """Scenario 174; one chunk of four goes to the oldest."""
    scheduler = _scheduler(rows=2, pages=400)
    long = _sequence(prompt=80)
    scheduler.submit(long)
    chunks = []
    while long in scheduler.prefilling:
        if not any(len(sequence.prompt) == 16 for sequence in scheduler.prefilling):
            scheduler.submit(_sequence(prompt=16, limit=1))
        chunk = _plan(scheduler).prefill
        assert chunk is not None
        chunks.append(chunk.sequence is long)
        if chunk.sequence not in (long, *scheduler.prefilling):
            scheduler.finish(chunk.sequence)
    # With two chunks left it is as short as the others, and older.
    assert chunks == [*[False, False, False, True] * 8, True, True]


def _chunks(scheduler: Scheduler, sequences: list[Sequence]) -> list[tuple[int, int]]:
    """Of each chunk until all answers begin whose it is, and where it begins."""
    chunks = []
    while not all(sequence.sampled for sequence in sequences):
        chunk = _plan(scheduler).prefill
        if chunk is not None:
            chunks.append((sequences.index(chunk.sequence), chunk.start))
    return chunks


def test_short_prompts_that_are_computed_together_begin_their_answers_together() -> None:
    """No answer begins in the pauses between the chunks of others: its tokens would stutter."""
    scheduler = _scheduler(rows=3, pages=200)
    sequences = [_sequence(prompt=size) for size in (12, 16, 5)]
    for sequence in sequences:
        scheduler.submit(sequence)
    for whose, start in [(2, 0), (0, 0), (0, 8), (1, 0), (1, 8)]:
        plan = _plan(scheduler)
        assert plan.prefill is not None and plan.decode == ()
        assert (plan.prefill.sequence, plan.prefill.start) == (sequences[whose], start)
    first = _plan(scheduler).decode
    assert {row.sequence: row.fed for row in first} == {
        sequence: len(sequence.prompt) - 1 for sequence in sequences
    }


def test_no_short_prompt_waits_for_a_long_one() -> None:
    """Scenario 174: it does not starve behind running prefills."""
    scheduler = _scheduler(rows=3, pages=400)
    long, first, second = (_sequence(prompt=size) for size in (200, 8, 8))
    scheduler.submit(long)
    _plan(scheduler)
    for sequence in (first, second):
        scheduler.submit(sequence)
    chunks = _chunks(scheduler, [long, first, second])
    assert [whose for whose, _ in chunks[:4] if whose] == [1, 2]
    assert first.sampled == first.limit, "they decoded beside it"


def test_a_prompt_whose_last_token_alone_is_left_begins_at_once() -> None:
    """Nothing of it is prefilled; pages are copied and states loaded before its first step."""
    scheduler = _scheduler()
    scheduler.submit(sequence := _sequence(prompt=1))
    plan = _plan(scheduler)
    assert plan.prefill is None
    assert [(row.position, row.fed) for row in plan.decode] == [(0, 0)]
    assert [start.sequence for start in plan.starts] == [sequence]


def test_rows_that_begin_take_the_places_of_drafts() -> None:
    """Drafts are counted before it is known who begins: a step must not outgrow its batch."""
    scheduler = _scheduler(rows=8, pages=400)
    scheduler.submit(_sequence(prompt=1, limit=50))
    _plan(scheduler)
    for _ in range(7):
        scheduler.submit(_sequence(prompt=1, limit=50))
    plan = scheduler.plan(lambda sequence, most: tuple(range(most)), 8 - len(scheduler.decoding))
    assert plan is not None
    assert sum(1 + len(row.drafts) for row in plan.decode) == len(plan.decode) == 8


def test_prompts_that_come_and_go_hold_nobody_up_for_long() -> None:
    """Clients that leave free their rows for others: the wait is bounded all the same."""
    scheduler = _scheduler(rows=2, pages=400)
    scheduler.submit(sequence := _sequence(prompt=8))
    scheduler.submit(other := _sequence(prompt=24))
    chunks = 0
    while not sequence.sampled:
        chunk = _plan(scheduler).prefill
        chunks += chunk is not None
        if chunk is not None and chunk.sequence is other and chunk.start == 8:
            scheduler.finish(other)
            scheduler.submit(other := _sequence(prompt=24))
        assert chunks <= 2 + 2 * 4, "as many chunks as short prompts in all rows have"


@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 5)), min_size=1, max_size=4),
)
def test_chunks_never_cross_the_grid_and_cover_every_prompt(
    chunk: int, prompts: list[tuple[int, int]]
) -> None:
    """One position is computed by one program at one place in it, alone and in company."""
    scheduler = _scheduler(rows=4, pages=200, chunk=chunk)
    sequences = [_sequence(*prompt) for prompt in prompts]
    covered: dict[Sequence, int] = dict.fromkeys(sequences, 0)
    for sequence in sequences:
        scheduler.submit(sequence)
    started = []
    while (plan := scheduler.plan()) is not None:
        started += [start.sequence for start in plan.starts]
        for row in plan.decode:
            assert row.sequence in started
            if row.fed is not None:
                assert row.position == covered[row.sequence] == len(row.sequence.prompt) - 1
                covered[row.sequence] += 1
        if plan.prefill is None:
            continue
        part = plan.prefill
        end = part.start + len(part.tokens)
        assert part.tokens and part.start // chunk == (end - 1) // chunk
        assert part.start == covered[part.sequence] and part.sequence in started
        covered[part.sequence] = end
        is_whole = end == len(part.sequence.prompt) - 1
        assert end % chunk == 0 or is_whole, "a chunk is as long as the grid allows"
    assert covered == {sequence: len(sequence.prompt) for sequence in sequences}
    assert len(started) == len(sequences), "each once"


def test_fewer_rows_are_served_under_pressure_and_all_of_them_afterwards() -> None:
    """The memory ladder clamps the rows; what runs goes on."""
    scheduler = _scheduler(rows=3)
    sequences = [_sequence(prompt=2) for _ in range(4)]
    for sequence in sequences[:2]:
        scheduler.submit(sequence)
    scheduler.row_limit = 1
    scheduler.submit(sequences[2])
    scheduler.submit(sequences[3])
    _plan(scheduler)
    assert [s.row is not None for s in sequences] == [True, True, False, False]
    scheduler.finish(sequences[0])
    assert sequences[2].row is None, "one runs, and one may"
    scheduler.finish(sequences[1])
    assert sequences[2].row is not None and sequences[3].row is None
    scheduler.row_limit = 3
    _plan(scheduler)
    assert sequences[3].row is not None


def test_rows_are_given_first_come_first_served() -> None:
    scheduler = _scheduler(rows=1)
    first, second, third = (_sequence(prompt=2) for _ in range(3))
    for sequence in (first, second, third):
        scheduler.submit(sequence)
    assert [s.row for s in (first, second, third)] == [0, None, None]
    scheduler.finish(first)
    scheduler.plan()
    assert [s.row for s in (second, third)] == [0, None]


def test_the_queue_is_bounded_and_a_refused_sequence_leaves_no_trace() -> None:
    """Reference: overflow waits in a FIFO queue, BS_QUEUE_DEPTH deep."""
    scheduler = _scheduler(rows=1, queue_depth=2)
    for _ in range(3):
        scheduler.submit(_sequence(prompt=2))
    with pytest.raises(QueueFull):
        scheduler.submit(_sequence(prompt=2))
    assert scheduler.waiting == 2
    scheduler.check()


def test_a_queue_of_depth_zero_still_admits_into_free_rows() -> None:
    scheduler = _scheduler(rows=1, queue_depth=0)
    scheduler.submit(_sequence(prompt=2))
    with pytest.raises(QueueFull):
        scheduler.submit(_sequence(prompt=2))


def test_a_sequence_waits_for_pages_even_when_a_row_is_free() -> None:
    scheduler = _scheduler(rows=2, pages=4)
    first, second = _sequence(prompt=9, limit=4), _sequence(prompt=5, limit=4)
    scheduler.submit(first)
    scheduler.submit(second)
    assert first.row is not None and second.row is None
    scheduler.finish(first)
    scheduler.plan()
    assert second.row is not None


def test_pages_cover_prompt_and_limit_so_that_decode_never_lacks_one() -> None:
    scheduler = _scheduler()
    sequence = _sequence(prompt=4, limit=5)
    scheduler.submit(sequence)
    assert sequence.lease is not None
    held, promised = len(sequence.pages), sequence.lease.promised
    assert (held, promised) == (1, 1), "4 + 5 - 1 tokens, 4 a page: the last one is never fed"
    for _ in range(2):
        _plan(scheduler)
    row = _plan(scheduler).decode[0]
    assert (row.position, len(row.pages), sequence.lease.promised) == (4, 2, 0)


def test_a_sequence_that_fits_no_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="at most the pool's 16 pages"):
        _scheduler().submit(_sequence(prompt=64, limit=2))


def test_expired_names_only_what_still_waits() -> None:
    """Reference: 30-second queue wait timeout."""
    scheduler = _scheduler(rows=1)
    running = _sequence(prompt=2, queued_at=0.0)
    old, young = _sequence(prompt=2, queued_at=1.0), _sequence(prompt=2, queued_at=9.0)
    for sequence in (running, old, young):
        scheduler.submit(sequence)
    assert scheduler.expired(before=5.0) == (old,)


def test_finish_is_idempotent_and_frees_the_row_at_once() -> None:
    scheduler = _scheduler(rows=1)
    first, second = _sequence(prompt=2), _sequence(prompt=2)
    scheduler.submit(first)
    scheduler.submit(second)
    scheduler.finish(first)
    scheduler.finish(first)
    scheduler.plan()
    assert second.row == 0
    scheduler.check()


class _Traffic(RuleBasedStateMachine):
    """Random submissions, steps, ends and cancels: rows and pages always add up."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = _scheduler(rows=3, queue_depth=3, pages=12)
        self.live: list[Sequence] = []

    @rule(prompt=st.integers(1, 20), limit=st.integers(1, 10))
    def submit(self, prompt: int, limit: int) -> None:
        sequence = _sequence(prompt, limit)
        try:
            self.scheduler.submit(sequence)
        except QueueFull:
            assert self.scheduler.waiting == 3
        else:
            self.live.append(sequence)

    @rule()
    def step(self) -> None:
        plan = self.scheduler.plan()
        if plan is None:
            assert all(s.sampled == s.limit for s in self.live if s.row is not None)
            return
        rows = [row.row for row in plan.decode]
        assert len(set(rows)) == len(rows) <= 3
        for row in plan.decode:
            assert row.position < len(row.pages) * 4
        if plan.prefill is not None:
            chunk = plan.prefill
            assert chunk.row not in rows
            end = chunk.start + len(chunk.tokens)
            assert chunk.tokens == chunk.sequence.prompt[chunk.start : end]
            assert end < len(chunk.sequence.prompt)

    @precondition(lambda self: self.live)
    @rule(choice=st.integers(0, 100))
    def end(self, choice: int) -> None:
        self.scheduler.finish(self.live.pop(choice % len(self.live)))

    @invariant()
    def adds_up(self) -> None:
        self.scheduler.check()
        waiting = [s for s in self.live if s.row is None]
        assert len(waiting) == self.scheduler.waiting


TestTraffic = _Traffic.TestCase
TestTraffic.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
