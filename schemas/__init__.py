"""The contracts: what travels on the log and what is kept.

Everything here is a frozen value. Nothing here does I/O, reads the environment or the clock.
"""
