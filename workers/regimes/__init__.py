"""Regimes: in which of a few states is a market, told from a noisy series by a small hidden Markov model."""
