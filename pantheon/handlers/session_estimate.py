"""`GET /session/estimate` over an engine: arithmetic, no device."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Final

from pantheon.engine import Engine
from pantheon.generated.models import SessionEstimate
from pantheon.generated.operations import (
    EstimateSession200Json,
    EstimateSessionRequest,
    EstimateSessionResponse,
)
from pantheon.handlers.session_id import model_name

BLOB_BYTES_PER_TOKEN: Final = 16 * 1024
UPLOAD_BYTES_PER_S: Final = 12_500_000.0
"""What is assumed where the request does not say (reference, `GET /session/estimate`)."""

COPY_BYTES_PER_S: Final = 3_000_000_000
"""Rate of the copy to the device, without which the reference's example does not come out."""

_LARGEST: Final = Fraction(sys.float_info.max)


def estimate_session(engine: Engine, request: EstimateSessionRequest) -> EstimateSessionResponse:
    """Seconds to restore a session against seconds to prefill it again. Never fails."""
    rate = engine.prefill_rate(model_name(request.name))
    blob_bytes = request.blob_bytes or request.tokens * BLOB_BYTES_PER_TOKEN
    upload_bps = Fraction(request.upload_bps or UPLOAD_BYTES_PER_S)
    warm = blob_bytes / upload_bps + Fraction(blob_bytes, COPY_BYTES_PER_S)
    return EstimateSession200Json(
        SessionEstimate(
            model=rate.model,
            tokens=request.tokens,
            prefill_tok_per_s=round(rate.tokens_per_s, 2),
            cold_reprefill_s=_seconds(request.tokens / Fraction(rate.tokens_per_s), 2),
            warm_restore_s=_seconds(warm, 3),
            blob_bytes_est=blob_bytes,
        )
    )


def _seconds(value: Fraction, digits: int) -> float:
    """A number that JSON can hold: what is beyond the doubles is the largest of them."""
    return round(float(min(value, _LARGEST)), digits)
