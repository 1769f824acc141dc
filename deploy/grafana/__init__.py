"""Grafana for a brain: dashboards made by Python, committed as JSON, and how they are provisioned."""
