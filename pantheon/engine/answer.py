"""From sampled tokens to the reasoning and the text of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pantheon.engine.content_logprobs import ContentLogprobs
from pantheon.engine.events import FinishReason, ReasoningDelta, TextDelta, TokenLogprob
from pantheon.engine.reasoning import Phase, ReasoningSplitter, ReasoningStart, Split
from pantheon.engine.repetition import RepetitionDetector
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.stop_strings import StopStrings
from pantheon.engine.tokenizer import TokenBytes


class Decoder(Protocol):
    """Turns token ids into text, whole characters at a time."""

    @property
    def between_characters(self) -> bool:
        """Whether no part of a character is held back."""
        ...

    @property
    def latest(self) -> bytes:
        """Bytes of the token taken last, as far as they are part of the text."""
        ...

    def push(self, token_id: int) -> str:
        """Take a token; return the text that is certain now."""
        ...

    def flush(self) -> str:
        """The tokens ended: return what is left."""
        ...


@dataclass(frozen=True, slots=True)
class AnswerStep:
    """What one token adds, and the reason when it is the last."""

    deltas: tuple[TextDelta | ReasoningDelta, ...] = ()
    finish_reason: FinishReason | None = None


class Answer:
    """One answer as it grows: detokenise, split off reasoning, look for stop strings and the end.

    Stop strings are looked for in the content alone, without the line breaks that frame it; end
    tokens end the reasoning too. Tokens of the content carry log-probabilities, those of the
    reasoning, of tags and the end token none. The joined deltas depend on the tokens' text only,
    not on how it is cut into tokens.
    """

    def __init__(
        self,
        *,
        decoder: Decoder,
        token_bytes: TokenBytes,
        stops: tuple[str, ...],
        end_tokens: frozenset[int],
        limit: int,
        reasoning: ReasoningStart | None = None,
        top_logprobs: int | None = None,
        stop_repetition: bool = False,
    ) -> None:
        """Start an answer.

        Args:
            decoder: a new one.
            token_bytes: the vocabulary's, for log-probabilities.
            stops: texts that end the content and are not part of it.
            end_tokens: tokens that end the answer; a tag that opens or closes the think block
                does so even if it is one of them.
            limit: most tokens to take.
            reasoning: how the answer of a think-style template begins; None never splits.
            top_logprobs: alternatives to report for each token; None reports nothing.
            stop_repetition: end an answer that loops.
        """
        self._decoder = decoder
        self._token_bytes = token_bytes
        self._splitter = ReasoningSplitter(reasoning)
        self._stops = StopStrings(stops)
        self._end_tokens = end_tokens
        self._limit = limit
        self._logprobs = (
            None if top_logprobs is None else ContentLogprobs(token_bytes, top_logprobs)
        )
        self._repetition = RepetitionDetector() if stop_repetition else None
        self._sent = 0
        self.tokens = 0
        """Tokens taken so far, an end token included."""
        self.reasoning_tokens = 0
        """Tokens taken inside an open think block, not counting a tag that is one token."""
        self.latest_content = ""
        """Content in the latest token's text, before stop strings are looked for."""

    @property
    def phase(self) -> Phase:
        """Where the answer is."""
        return self._splitter.phase

    @property
    def in_reasoning(self) -> bool:
        """Whether a think block is open."""
        return self.phase is Phase.REASONING

    @property
    def begun_closing_tag(self) -> str:
        """The part of a closing tag that may have come, where tags are found in text."""
        return self._splitter.begun_closing_tag

    @property
    def breaks_after_reasoning(self) -> int:
        """Line breaks so far between a closed block and the content."""
        return self._splitter.breaks_after

    @property
    def between_characters(self) -> bool:
        """False while the tokens so far end inside a character."""
        return self._decoder.between_characters

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stops.found

    def push(self, token: SampledToken) -> AnswerStep:
        """Take the next token. After a step with a finish reason nothing may follow."""
        self.tokens += 1
        self.latest_content = ""
        phase = self.phase
        # A character that was begun, and now breaks off, is content before an opening tag.
        if self._splitter.expects_tag(token.id) and (self.in_reasoning or self.between_characters):
            split = self._splitter.push(self._decoder.flush())
            self._splitter.take_tag()
        elif token.id in self._end_tokens:
            return self.end("stop")
        else:
            self.reasoning_tokens += phase is Phase.REASONING
            split = self._take_text(token)
        self._drop_logprobs(phase)
        self.latest_content = split.content
        text = self._stops.push(split.content)
        if self._stops.found:
            return self._step(split.reasoning, text, "stop")
        reason: FinishReason | None = None
        if self._repetition is not None and self._repetition.push(token.id):
            reason = "repetition_loop"
        elif self.tokens == self._limit:
            reason = "length"
        if reason is None:
            return self._step(split.reasoning, text, None)
        return self._end(reason, Split(split.reasoning, text))

    def end(self, reason: FinishReason) -> AnswerStep:
        """End the answer here: what was held back is certain now.

        A stop string that it completes makes the reason `stop`.
        """
        return self._end(reason, Split())

    def _take_text(self, token: SampledToken) -> Split:
        """Take a token that is text."""
        start, inside = self._splitter.taken, not self._decoder.between_characters
        tag = self._splitter.tag_text(token.id)
        if tag is None:
            text = self._decoder.push(token.id)
            data = self._decoder.latest
        else:
            # A tag in another place is text, also where its token is a control token.
            data = tag.encode()
            text = self._decoder.flush() + tag
        if self._logprobs is not None:
            end = start
            if data:
                # The character that was begun ends in U+FFFD if this token does not continue it.
                start += inside and not 0x80 <= data[0] < 0xC0
                end += len(text) + (not self._decoder.between_characters)
            self._logprobs.add(token, data, start, end)
        return self._splitter.push(text)

    def _end(self, reason: FinishReason, before: Split) -> AnswerStep:
        phase = self.phase
        split = self._splitter.push(self._decoder.flush()) + self._splitter.flush()
        self._drop_logprobs(phase)
        text = self._stops.push(split.content)
        if self._stops.found:
            reason = "stop"
        else:
            text += self._stops.flush()
        return self._step(before.reasoning + split.reasoning, before.content + text, reason)

    def _drop_logprobs(self, phase: Phase) -> None:
        """Forget the entries of what turned out to be no content.

        Args:
            phase: before the latest token.
        """
        if self._logprobs is None or phase is Phase.CONTENT:
            return
        if self.in_reasoning or self.phase is Phase.AFTER:
            self._logprobs.drop(self._splitter.taken)
        elif self._splitter.content_at:
            self._logprobs.drop(self._splitter.content_at)

    def _step(self, reasoning: str, text: str, reason: FinishReason | None) -> AnswerStep:
        deltas: list[TextDelta | ReasoningDelta] = []
        if reasoning:
            deltas.append(ReasoningDelta(reasoning))
        self._sent += len(text)
        logprobs: tuple[TokenLogprob, ...] = ()
        if self._logprobs is not None and self.phase is Phase.CONTENT:
            logprobs = self._logprobs.take(self._splitter.content_at + self._sent)
        if text or logprobs:
            deltas.append(TextDelta(text, logprobs))
        return AnswerStep(tuple(deltas), reason)
