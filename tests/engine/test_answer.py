"""From tokens to text and finish reasons (reference, `finish_reason`, `stop`, `max_tokens`)."""

from pantheon.engine.answer import Answer, Step


class _Letters:
    """Token n is the n-th letter; 100 is held back until the next token or the end."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, token_id: int) -> str:
        held, self._held = self._held, ""
        if token_id == 100:
            self._held = "?"
            return held
        return held + chr(ord("a") + token_id)

    def flush(self) -> str:
        held, self._held = self._held, ""
        return held


def _answer(stops: tuple[str, ...] = (), limit: int = 10) -> Answer:
    return Answer(_Letters(), stops, frozenset({99}), limit)


def test_an_end_token_stops_without_text() -> None:
    answer = _answer()
    assert [answer.push(token) for token in (0, 1, 99)] == [
        Step("a", None),
        Step("b", None),
        Step("", "stop"),
    ]
    assert answer.tokens == 3, "the end token was sampled and counts"


def test_the_limit_gives_length() -> None:
    answer = _answer(limit=2)
    assert [answer.push(0), answer.push(1)] == [Step("a", None), Step("b", "length")]


def test_a_stop_string_ends_the_answer_before_it() -> None:
    answer = _answer(stops=("bc",))
    assert [answer.push(token) for token in (0, 1, 2)] == [
        Step("a", None),
        Step("", None),
        Step("", "stop"),
    ]


def test_a_stop_string_completed_by_the_last_token_is_stop_not_length() -> None:
    answer = _answer(stops=("bc",), limit=3)
    assert [answer.push(token) for token in (0, 1, 2)][-1] == Step("", "stop")


def test_what_decoder_and_stops_hold_back_is_flushed_at_the_limit() -> None:
    answer = _answer(stops=("b?c",), limit=2)
    assert [answer.push(1), answer.push(100)] == [Step("", None), Step("b?", "length")]


def test_what_is_held_back_is_flushed_at_an_end_token() -> None:
    answer = _answer(stops=("bcd",))
    assert [answer.push(token) for token in (1, 2, 99)][-1] == Step("bc", "stop")


def test_a_stop_string_may_be_completed_by_the_flush_of_the_decoder() -> None:
    answer = _answer(stops=("b?",))
    assert [answer.push(token) for token in (0, 1, 100, 99)][-1] == Step("", "stop")
