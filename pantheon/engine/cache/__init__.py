"""Who owns the KV: pages of a pool, handed out by integers. Knows no device."""

from pantheon.engine.cache.pages import PagePool

__all__ = ["PagePool"]
