"""The arithmetic of `GET /session/estimate` (reference, there)."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine import PrefillRate
from pantheon.engine.testing import ScriptedEngine, scripted_model
from pantheon.generated.models import SessionEstimate
from pantheon.generated.operations import EstimateSession200Json, EstimateSessionRequest
from pantheon.handlers.session_estimate import estimate_session
from tests.handlers.calls import Client


class MeasuredEngine(ScriptedEngine):
    """An engine that has measured its rate."""

    rate = 17.0

    def prefill_rate(self, model: str | None) -> PrefillRate:
        return PrefillRate(super().prefill_rate(model).model, self.rate)


def estimate(
    tokens: int,
    name: str | None = None,
    blob_bytes: int | None = None,
    upload_bps: float | None = None,
    rate: float = 17.0,
) -> SessionEstimate:
    engine = MeasuredEngine([scripted_model("my-model"), scripted_model("other")])
    engine.rate = rate
    request = EstimateSessionRequest(
        client=Client(), tokens=tokens, name=name, blob_bytes=blob_bytes, upload_bps=upload_bps
    )
    response = estimate_session(engine, request)
    assert isinstance(response, EstimateSession200Json)
    return response.body


def test_example_of_the_reference() -> None:
    text = msgspec.json.encode(estimate(4096)).decode()
    assert json.loads(text) == {
        "model": "my-model",
        "tokens": 4096,
        "prefill_tok_per_s": 17.00,
        "cold_reprefill_s": 240.94,
        "warm_restore_s": 5.391,
        "blob_bytes_est": 67108864,
    }


def test_given_blob_and_rates_count() -> None:
    """3e9 bytes at 1e9 bytes/s take 3 s, and 1 s to the device; 1000 tokens at 80 a second 12.5."""
    body = estimate(1000, "other", blob_bytes=3 * 10**9, upload_bps=1e9, rate=80.0)
    assert (body.model, body.blob_bytes_est) == ("other", 3 * 10**9)
    assert (body.warm_restore_s, body.cold_reprefill_s) == (4.0, 12.5)
    assert body.prefill_tok_per_s == 80.0


@pytest.mark.parametrize(("name", "model"), [("nope", ""), ("", "my-model"), (None, "my-model")])
def test_unknown_name_is_no_error(name: str | None, model: str) -> None:
    assert estimate(1, name).model == model


def test_no_model_at_all_is_no_error() -> None:
    request = EstimateSessionRequest(
        client=Client(), tokens=1, name=None, blob_bytes=None, upload_bps=None
    )
    response = estimate_session(ScriptedEngine([]), request)
    assert isinstance(response, EstimateSession200Json)
    assert (response.body.model, response.body.prefill_tok_per_s) == ("", 17.0)


@given(
    tokens=st.integers(1, 10**308 - 1),
    blob_bytes=st.none() | st.integers(1, 10**308 - 1),
    upload_bps=st.none() | st.floats(5e-324, 1.7e308),
    rate=st.floats(1e-9, 1e9),
)
def test_every_number_is_finite(
    tokens: int, blob_bytes: int | None, upload_bps: float | None, rate: float
) -> None:
    body = estimate(tokens, None, blob_bytes, upload_bps, rate)
    assert math.isfinite(body.cold_reprefill_s) and body.cold_reprefill_s >= 0
    assert math.isfinite(body.warm_restore_s) and body.warm_restore_s >= 0
    assert json.loads(msgspec.json.encode(body))["tokens"] == tokens
