"""HTTP around the handlers: bodies, errors, headers, streams and the gunicorn worker."""
