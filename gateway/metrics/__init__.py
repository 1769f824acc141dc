"""Metrics and health of a running pipeline: what it exports is in ``catalogue``, what ``up`` calls in ``wiring``."""
