"""Chromium for tests, and pictures of the operator's pages for the docs."""
