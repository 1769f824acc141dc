"""Distilling claims: evidence per key, mining and confirming, verdicts on what is believed, the words for it."""
