"""The official OpenAI client against the server, whatever engine is behind it."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.server.models import serve_smollm2
from tests.server.process import Server

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", params=["scripted", "smollm2"])
def any_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The scripted engine and a real model."""
    if request.param == "scripted":
        yield request.getfixturevalue("server")
    else:
        with serve_smollm2() as started:
            yield started


@pytest.fixture
def client(any_server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{any_server.url}/v1", api_key="unused", max_retries=0, timeout=60
    ) as made:
        yield made


@pytest.fixture
def model(client: openai.OpenAI) -> str:
    """The served name of the first model."""
    return client.models.list().data[0].id


def test_client_lists_models(client: openai.OpenAI) -> None:
    listed = client.models.list().data
    assert listed
    assert all(model.object == "model" and model.owned_by == "pantheon" for model in listed)


def test_client_chats(client: openai.OpenAI, model: str) -> None:
    completion = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Say hello to the world."}],
        max_tokens=8,
        temperature=0,
    )
    (choice,) = completion.choices
    assert completion.model == model
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    usage = completion.usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 0 < usage.completion_tokens <= 8


def test_client_streams_the_same_answer(client: openai.OpenAI, model: str) -> None:
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say hello to the world."},
    ]
    plain = client.chat.completions.create(
        model=model, messages=messages, max_tokens=8, temperature=0
    )
    chunks = list(
        client.chat.completions.create(
            model=model,
            messages=messages,
            max_tokens=8,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == plain.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == plain.choices[0].finish_reason
    assert chunks[-1].usage is not None
    assert plain.usage is not None
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens


def test_client_sees_a_refusal_as_its_own_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="any", messages=[])
    assert caught.value.type == "invalid_request_error"


def test_client_reads_choices_and_logprobs(client: openai.OpenAI, model: str) -> None:
    completion = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Say hello to the world."}],
        max_tokens=4,
        n=2,
        seed=1,
        logprobs=True,
        top_logprobs=2,
    )
    assert [choice.index for choice in completion.choices] == [0, 1]
    for choice in completion.choices:
        assert choice.logprobs is not None and choice.logprobs.content
        for token in choice.logprobs.content:
            assert token.logprob <= 0
            assert token.bytes is not None and bytes(token.bytes)
            assert len(token.top_logprobs) == 2
    assert completion.usage is not None
    assert completion.usage.completion_tokens > 4
