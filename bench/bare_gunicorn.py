"""gunicorn's configuration for `bench.bare_app`: its own thread worker, and nothing of ours."""

import os

bind = f"{os.environ['PANTHEON_HOST']}:{os.environ['PANTHEON_PORT']}"
worker_class = "gthread"
threads = 4
