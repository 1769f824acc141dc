"""Stages that touch a store or a model: thin shells around the cores in ``workers``."""
