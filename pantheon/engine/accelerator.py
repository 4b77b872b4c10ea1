"""Whether the devices that a build is for are there, and why not, in one line."""

from __future__ import annotations

import logging
from typing import Final

import jax

from pantheon.engine.errors import LoadFailed, LoadFailure

_log: Final = logging.getLogger(__name__)

_HOST: Final = "cpu"
"""What JAX calls it."""

_JAX_LOGGER: Final = "jax._src.xla_bridge"
_PLUGIN_ERROR: Final = "Jax plugin configuration error"
_NONE_FOUND: Final = "JAX found none; is its driver loaded, and does CUDA_VISIBLE_DEVICES name any?"


class _PluginErrors(logging.Filter):
    """Keeps what JAX says of plugins that do not start, a traceback each, out of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        if not str(record.msg).startswith(_PLUGIN_ERROR):
            return True
        error = None if record.exc_info is None else record.exc_info[1]
        text = record.getMessage() if error is None else str(error)
        self.found.append(" ".join(text.split()))
        return False


def keep_host() -> bool:
    """Have JAX bring up the CPU too where JAX_PLATFORMS names only others: weights on their way to
    dies are read there. Before JAX looks for devices.

    Returns:
        Whether it names only others, and so no CPU for models.
    """
    named: str | None = jax.config.values["jax_platforms"]
    if not named or _HOST in named.split(","):
        return False
    jax.config.update("jax_platforms", f"{named},{_HOST}")  # type: ignore[no-untyped-call]
    return True


def look_for_devices(backend: str, *, only_others: bool = False) -> None:
    """Have JAX look for its devices; without any, models run on the CPU and the log says why.

    Args:
        backend: the build's; see `pantheon.build_info`.
        only_others: what `keep_host` said.

    Raises:
        LoadFailed: JAX_PLATFORMS asks for devices that are not there.
    """
    logger, errors = logging.getLogger(_JAX_LOGGER), _PluginErrors()
    logger.addFilter(errors)
    try:
        platform = jax.default_backend()
        if only_others and platform == _HOST:
            raise RuntimeError(_NONE_FOUND)
    # JAX asserts that some platform is there.
    except (RuntimeError, AssertionError) as error:
        reason = "; ".join(errors.found) or " ".join(str(error).split()) or _NONE_FOUND
        raise LoadFailed(
            LoadFailure.NO_ACCELERATOR, f"JAX has no device that may be used: {reason:.500}"
        ) from error
    finally:
        logger.removeFilter(errors)
    if platform == _HOST and backend != _HOST:
        _log.warning(
            "NO %s DEVICE IS VISIBLE, models run on the CPU: %.500s",
            backend.upper(),
            "; ".join(errors.found) or _NONE_FOUND,
        )
        return
    for error_text in errors.found:
        _log.warning("a plugin of JAX did not start: %.500s", error_text)
