"""What each stage does with a record: pure cores, no I/O, no clock, no randomness of their own."""
