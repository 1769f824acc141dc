"""Breakers: around calls to the outside (``call``), and over a portfolio's value (``portfolio``, ``stage``)."""
