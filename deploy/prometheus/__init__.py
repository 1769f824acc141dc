"""Prometheus for a brain: configuration, alert rules, their tests, and a way to run it from Debian's package."""
