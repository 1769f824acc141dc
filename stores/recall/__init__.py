"""Recall: from a question to the few memories that bear on it, each with the reason why it is there."""
