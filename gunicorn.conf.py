"""gunicorn's configuration for `gunicorn pantheon.app` in this folder."""

from pantheon.http.server_options import gunicorn_options
from pantheon.settings import Settings, SettingsError

try:
    _settings = Settings.from_environment()
except SettingsError as error:
    raise SystemExit(f"pantheon: {error}") from None

globals().update(
    gunicorn_options(_settings.host, _settings.port, _settings.threads, _settings.drain_ms / 1000)
)
