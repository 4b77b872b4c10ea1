"""Admission, queue and step plans (reference, concurrency and connection model)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pantheon.engine.cache import PagePool, PrefixCache
from pantheon.engine.scheduler import QueueFull, Scheduler, Sequence, StepPlan


def _scheduler(
    rows: int = 2,
    queue_depth: int = 4,
    pages: int = 16,
    chunk: int = 8,
    pace: int = 0,
    gathers: bool = False,
) -> Scheduler:
    cache = PrefixCache(PagePool(total=pages, page_size=4))
    return Scheduler(
        rows=rows, queue_depth=queue_depth, chunk=chunk, cache=cache, pace=pace, gathers=gathers
    )


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
        chunks.append((chunk.start, len(chunk.tokens), chunk.last))
    assert chunks == [(0, 8, False), (8, 8, False), (16, 2, True)]
    positions = [[row.position for row in _plan(scheduler).decode] for _ in range(2)]
    assert positions == [[18], [19]]
    assert scheduler.plan() is None
    assert not scheduler.idle, "its last tokens are not read yet"
    scheduler.finish(sequence)
    assert scheduler.idle


def test_a_running_row_decodes_beside_every_chunk_of_a_long_prompt() -> None:
    """Scenario 173: a long prefill freezes no stream."""
    scheduler = _scheduler()
    short, long = _sequence(prompt=2, limit=9), _sequence(prompt=30, limit=1)
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
    while not long.sampled:
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
        while not prompt.sampled:
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
    while not short.sampled:
        chunks += _plan(scheduler).prefill is not None
    assert chunks <= others + 1


def _order_of_ends(scheduler: Scheduler, sequences: list[Sequence]) -> list[int]:
    ends: list[int] = []
    while len(ends) < len(sequences):
        chunk = _plan(scheduler).prefill
        if chunk is not None and chunk.last:
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
    while not long.sampled:
        if not any(len(sequence.prompt) == 16 for sequence in scheduler.prefilling):
            scheduler.submit(_sequence(prompt=16, limit=1))
        chunk = _plan(scheduler).prefill
        assert chunk is not None
        chunks.append(chunk.sequence is long)
        if chunk.last and chunk.sequence is not long:
            scheduler.finish(chunk.sequence)
    # With two chunks left it is as short as the others, and older.
    assert chunks == [*[False, False, False, True] * 8, True, True]


def _pieces(scheduler: Scheduler, sequences: list[Sequence]) -> list[tuple[int, int, int]]:
    """Of each planned chunk whose it is, where it begins, and beside how many rows it runs."""
    pieces = []
    while not all(sequence.sampled for sequence in sequences):
        plan = _plan(scheduler)
        if plan.prefill is not None:
            whose = sequences.index(plan.prefill.sequence)
            pieces.append((whose, plan.prefill.start, len(plan.decode)))
    return pieces


def test_short_prompts_that_are_computed_together_begin_their_answers_together() -> None:
    """No answer begins in the pauses between the chunks of others: its tokens would stutter."""
    scheduler = _scheduler(rows=3, pages=200, gathers=True)
    sequences = [_sequence(prompt=size) for size in (12, 16, 5)]
    for sequence in sequences:
        scheduler.submit(sequence)
    assert _pieces(scheduler, sequences) == [
        *((2, 0, 0), (0, 0, 0), (0, 8, 0), (1, 0, 0), (1, 8, 0)),
        *((0, 11, 0), (1, 15, 0), (2, 4, 0)),
    ]


def test_a_prompt_alone_is_not_divided() -> None:
    scheduler = _scheduler(gathers=True)
    scheduler.submit(sequence := _sequence(prompt=12))
    assert _pieces(scheduler, [sequence]) == [(0, 0, 0), (0, 8, 0)]


def test_no_short_prompt_waits_for_a_long_one() -> None:
    """Scenario 174: it does not starve behind running prefills."""
    scheduler = _scheduler(rows=3, pages=400, gathers=True)
    long, first, second = (_sequence(prompt=size) for size in (200, 8, 8))
    scheduler.submit(long)
    _plan(scheduler)
    for sequence in (first, second):
        scheduler.submit(sequence)
    pieces = _pieces(scheduler, [long, first, second])
    assert [whose for whose, _, _ in pieces[:5] if whose] == [1, 2, 1, 2]
    assert not any(start % 8 for whose, start, _ in pieces if whose == 0), "it is not held back"


@pytest.mark.parametrize("pace", [0, 5])
def test_what_was_gathered_begins_before_rows_are_made_up_to(pace: int) -> None:
    scheduler = _scheduler(rows=4, pages=400, pace=pace, gathers=True)
    scheduler.submit(_sequence(prompt=2, limit=100))
    for _ in range(pace + 1):
        _plan(scheduler)
    sequences = [_sequence(prompt=8) for _ in range(2)]
    for sequence in sequences:
        scheduler.submit(sequence)
    steps = [_plan(scheduler).prefill for _ in range(4)]
    assert [piece and piece.start for piece in steps] == [0, 0, 7, 7]
    rests = []
    scheduler.submit(_sequence(prompt=40))
    while _plan(scheduler).prefill is None:
        rests.append(True)
    assert len(rests) == 2 * pace, "single tokens owe nothing"


def test_rows_go_on_beside_prompts_of_one_token() -> None:
    """However many come, a running row waits for as many of them as there are rows at most."""
    scheduler = _scheduler(rows=2, queue_depth=50, pages=400, gathers=True)
    scheduler.submit(_sequence(prompt=2, limit=100))
    _plan(scheduler)
    decoded = []
    for _ in range(12):
        scheduler.submit(single := _sequence(prompt=1, limit=1))
        plan = _plan(scheduler)
        decoded.append(bool(plan.decode))
        scheduler.finish(single)
    assert decoded == [False, False, True] * 4


def test_prompts_that_come_and_go_hold_nobody_up_for_long() -> None:
    """Clients that leave free their rows for others: the wait is bounded all the same."""
    scheduler = _scheduler(rows=2, pages=400, gathers=True)
    scheduler.submit(sequence := _sequence(prompt=8))
    scheduler.submit(other := _sequence(prompt=24))
    for _ in range(40):
        if sequence.sampled:
            break
        chunk = _plan(scheduler).prefill
        assert chunk is not None
        if chunk.sequence is other and chunk.start == 8:
            scheduler.finish(other)
            scheduler.submit(other := _sequence(prompt=24))
    assert sequence.sampled
    assert scheduler._chunks <= 2 + 2 * 4, "as many chunks as short prompts in all rows have"


@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 5)), min_size=1, max_size=4),
    st.booleans(),
)
def test_chunks_never_cross_the_grid_and_cover_every_prompt(
    chunk: int, prompts: list[tuple[int, int]], gathers: bool
) -> None:
    """One position is computed by one program at one place in it, alone and in company."""
    scheduler = _scheduler(rows=4, pages=200, chunk=chunk, gathers=gathers)
    sequences = [_sequence(*prompt) for prompt in prompts]
    covered: dict[Sequence, int] = dict.fromkeys(sequences, 0)
    for sequence in sequences:
        scheduler.submit(sequence)
    while (plan := scheduler.plan()) is not None:
        if plan.prefill is None:
            continue
        part = plan.prefill
        end = part.start + len(part.tokens)
        assert part.tokens and part.start // chunk == (end - 1) // chunk
        assert part.start == covered[part.sequence] and part.first == (part.start == 0)
        covered[part.sequence] = end
        assert part.last == (end == len(part.sequence.prompt))
        is_held_back = gathers and end == len(part.sequence.prompt) - 1
        assert end % chunk == 0 or part.last or is_held_back, "as long as the grid allows"
    assert covered == {sequence: len(sequence.prompt) for sequence in sequences}


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

    @initialize(gathers=st.booleans())
    def start(self, gathers: bool) -> None:
        self.scheduler = _scheduler(rows=3, queue_depth=3, pages=12, gathers=gathers)

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
            assert chunk.last == (end == len(chunk.sequence.prompt))

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
