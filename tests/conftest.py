"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# A shared machine makes any example slow now and then; how fast the project is, ``bench/`` measures.
settings.register_profile("project", deadline=None)
settings.load_profile("project")
