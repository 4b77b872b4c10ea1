"""Everything of a served model but its device: tokenizer, scheduler, step loop, instance."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from bench.prompts import Prompts
from bench.stub_device import StubDevice
from pantheon.engine.answering import AnswerOptions
from pantheon.engine.cache import PagePool, PrefixCache, SessionTable
from pantheon.engine.config import EngineConfig, ToolGrammar
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.instance import InstanceIdentity, ModelInstance
from pantheon.engine.model_text import ModelText
from pantheon.engine.runner import PREFILL_CHUNK, Capacity, Runner
from pantheon.engine.scheduler import Scheduler
from pantheon.engine.shared import Shared
from pantheon.engine.step_loop import StepLoop
from pantheon.engine.tokenizer import ChatTokenizer, Tokenizer, Vocabulary
from pantheon.engine.tools import dialect_for

ROWS: Final = 8
WINDOW: Final = 4096
NAME: Final = "stub"
_PAGE_SIZE: Final = 64
_TEXT_WORDS: Final = 5000
_SESSIONS: Final = 8


def stub_model(
    file: Path, config: EngineConfig, step_seconds: float
) -> tuple[ModelInstance, StubDevice]:
    """A model with the tokenizer of a GGUF file that answers in words without sense."""
    with GGUFFile(file) as opened:
        tokenizer = ChatTokenizer(
            Tokenizer(Vocabulary.from_metadata(opened.metadata)),
            opened.metadata.optional_string("tokenizer.chat_template"),
        )
    text = tokenizer.tokenizer.encode(Prompts(seed=8).words(_TEXT_WORDS), special=False)
    device = StubDevice(text, ROWS, step_seconds)
    capacity = Capacity(ROWS, ROWS * WINDOW // _PAGE_SIZE, _PAGE_SIZE, WINDOW)
    cache = PrefixCache(PagePool(capacity.pages, capacity.page_size))
    loop = StepLoop(
        NAME,
        device,
        Scheduler(rows=ROWS, queue_depth=config.queue_depth, chunk=PREFILL_CHUNK, cache=cache),
        SessionTable(
            max_sessions=_SESSIONS,
            idle_ttl_s=config.session_idle_ttl_s,
            watch_grace_s=config.watch_grace_s,
            forget=cache.forget,
        ),
        queue_wait_s=config.queue_wait_s,
    )
    identity = InstanceIdentity(
        id=NAME,
        path=str(file),
        max_sessions=_SESSIONS,
        max_concurrent_configured=ROWS,
        context_window_configured=WINDOW,
        architecture=NAME,
        weights_version=0,
    )
    instance = ModelInstance(
        identity,
        ModelText.of(tokenizer),
        dialect_for(NAME, NAME, tokenizer.writes_bos),
        # What an instance asks of a runner, the stub has too.
        cast(Runner, device),
        loop,
        capacity,
        None,
        Shared.of(config),
        answers=AnswerOptions(0, True, ToolGrammar.REQUIRED),
        thinking_default=True,
        speculates=False,
    )
    return instance, device
