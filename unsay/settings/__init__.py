"""Settings: their groups, the presets, and where each value comes from."""

from unsay.settings.settings import Context, Settings

__all__ = ["Context", "Settings"]
