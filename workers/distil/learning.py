"""How groups of episodes learn: the same rules for a record key and for what is above it."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.settings import Settings
from workers.windows import Tumbling


@dataclass(frozen=True, slots=True)
class Learning:
    """What both learning stages go by; the defaults are the settings' own.

    Attributes:
        window_hours: length of the event-time windows.
        window_min_episodes: fewest new episodes of a group before its beliefs and evidence are looked at.
        evidence_limit: most episodes of evidence kept a group.
        fdr: false discovery rate of new claims, a group.
        drift_delta: confidence parameter of drift detectors: of a key's, and above the keys over the levels.
    """

    window_hours: float = 4.0
    window_min_episodes: int = 3
    evidence_limit: int = 2000
    fdr: float = 0.10
    drift_delta: float = 0.01

    @classmethod
    def of(cls, settings: Settings) -> Learning:
        """As the settings want it."""
        return cls(settings.window_hours, settings.window_min_episodes, settings.evidence_limit, settings.fdr, settings.drift_delta)

    @property
    def windows(self) -> Tumbling:
        """The event-time windows."""
        return Tumbling.of_hours(self.window_hours)


AS_SHIPPED = Learning()
