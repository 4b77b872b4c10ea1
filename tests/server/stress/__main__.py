"""`python -m tests.server.stress [requests]`: the whole stress run, with what it held."""

from __future__ import annotations

import sys

from tests.server.models import serve_tiny
from tests.server.stress.run import ENVIRONMENT, OPTIONS, WARM, Checkpoint, stress


def tell(checkpoint: Checkpoint) -> None:
    """Print a checkpoint."""
    held = checkpoint.held
    print(
        f"{checkpoint.requests:6} requests, {checkpoint.seconds:6.1f} s: {held.threads} threads, "
        f"{held.descriptors} descriptors, {held.resident / 2**20:.1f} MiB",
        flush=True,
    )


def main() -> int:
    """Run; 0, or an AssertionError's traceback."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with serve_tiny(OPTIONS, **ENVIRONMENT) as server:
        report = stress(server, requests, tell)
    for kind, count in sorted(report.counts.items()):
        print(f"{count:6} {kind}")
    print(
        f"{requests} requests in {report.seconds:.1f} s; resident memory grew by "
        f"{report.total_growth / 2**20:.1f} MiB after the first {WARM}, by "
        f"{report.growth / 2**20:.1f} MiB where it grew least between two checkpoints"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
