"""What a file says of its rotary position embedding."""

from __future__ import annotations

import math

from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.model.config import LinearScaling, Pairing, RopeConfig, YarnScaling

LONG_FACTORS = "rope_factors_long.weight"
SHORT_FACTORS = "rope_factors_short.weight"

_LARGEST_CONTEXT = 1 << 24
_LARGEST_FACTOR = 1 << 16
_BETA_FAST, _BETA_SLOW = 32.0, 1.0
_BASE = 10_000.0


def read_rope(file: GGUFFile, head_dim: int, pairing: Pairing) -> RopeConfig:
    """Read dimensions, base and scaling.

    Raises:
        GGUFError: a value is out of range, or asks for what this build does not do.
    """
    metadata, prefix = file.metadata, f"{file.architecture}.rope"
    dim = metadata.optional_uint(f"{prefix}.dimension_count", minimum=1)
    dim = head_dim if dim is None else dim
    if dim % 2 or dim > head_dim:
        raise GGUFError(
            f"{prefix}.dimension_count must be even and at most the head size {head_dim}, got {dim}"
        )
    base = metadata.optional_float(f"{prefix}.freq_base")
    base = _BASE if base is None else base
    if not base > 1:
        raise GGUFError(f"{prefix}.freq_base must be above 1, got {base}")
    scaling, magnitude = _scaling(file, f"{prefix}.scaling")
    return RopeConfig(
        dim=dim,
        base=base,
        pairing=pairing,
        scaling=scaling,
        original_length=_long_rope_length(file, f"{prefix}.scaling"),
        magnitude=magnitude,
    )


def _scaling(file: GGUFFile, prefix: str) -> tuple[LinearScaling | YarnScaling | None, float]:
    """The scaling of the frequencies, and the magnitude that goes with it."""
    metadata = file.metadata
    kind = metadata.optional_string(f"{prefix}.type")
    written = metadata.optional_float(f"{prefix}.attn_factor")
    magnitude = 1.0 if written is None else written
    if not 0 < magnitude < _LARGEST_FACTOR:
        raise GGUFError(f"{prefix}.attn_factor must be positive, got {magnitude}")
    match kind:
        case None:
            # Files older than the key have linear factors, as llama.cpp reads them.
            factor = _untyped_factor(file, prefix)
            return None if factor == 1 else LinearScaling(factor), magnitude
        case "none":
            return None, magnitude
        case "longrope":
            if LONG_FACTORS not in file.tensors:
                raise GGUFError(f"{prefix}.type is longrope, but {LONG_FACTORS} is missing")
            return None, magnitude
        case "linear":
            return LinearScaling(_factor(file, f"{prefix}.factor")), magnitude
        case "yarn":
            scaling = _yarn(file, prefix)
            # The temperature of attention that goes with the factor (YaRN, equation 22).
            return scaling, magnitude * (0.1 * math.log(scaling.factor) + 1.0)
    raise GGUFError(f"{prefix}.type must be none, linear, yarn or longrope, got {kind!r:.100}")


def _original_length(file: GGUFFile, prefix: str) -> int:
    """Tokens of the context before it was extended; the whole one where the file does not say."""
    key = f"{prefix}.original_context_length"
    if key not in file.metadata:
        key = f"{file.architecture}.context_length"
    return file.metadata.uint(key, minimum=1, maximum=_LARGEST_CONTEXT)


def _untyped_factor(file: GGUFFile, prefix: str) -> float:
    """The factor of a file that does not say what it is of; 0 counts as absent."""
    for key in (f"{prefix}.factor", f"{file.architecture}.rope.scale_linear"):
        if file.metadata.optional_float(key):
            return _factor(file, key)
    return 1.0


def _yarn(file: GGUFFile, prefix: str) -> YarnScaling:
    metadata = file.metadata
    for key, neutral in (
        ("yarn_ext_factor", 1.0),
        ("yarn_attn_factor", 1.0),
        ("yarn_log_multiplier", 0.0),
    ):
        found = metadata.optional_float(f"{prefix}.{key}")
        if found not in (None, neutral):
            raise GGUFError(f"{prefix}.{key} must be {neutral}, got {found}")
    fast = metadata.optional_float(f"{prefix}.yarn_beta_fast")
    slow = metadata.optional_float(f"{prefix}.yarn_beta_slow")
    scaling = YarnScaling(
        factor=_factor(file, f"{prefix}.factor"),
        original_length=_original_length(file, prefix),
        beta_fast=_BETA_FAST if fast is None else fast,
        beta_slow=_BETA_SLOW if slow is None else slow,
    )
    if not scaling.beta_fast > scaling.beta_slow > 0:
        raise GGUFError(
            f"{prefix}.yarn_beta_fast must be above yarn_beta_slow and both positive, "
            f"got {scaling.beta_fast} and {scaling.beta_slow}"
        )
    return scaling


def _factor(file: GGUFFile, key: str) -> float:
    factor = file.metadata.float(key)
    if not 1 <= factor < _LARGEST_FACTOR:
        raise GGUFError(f"{key} must be at least 1 and below {_LARGEST_FACTOR}, got {factor}")
    return factor


def _long_rope_length(file: GGUFFile, prefix: str) -> int | None:
    """Tokens up to which the short factors of LongRoPE hold; None without such factors."""
    if LONG_FACTORS not in file.tensors:
        return None
    return file.metadata.uint(
        f"{prefix}.original_context_length", minimum=1, maximum=_LARGEST_CONTEXT
    )
