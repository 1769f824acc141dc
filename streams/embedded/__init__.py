"""The embedded broker: a log in one SQLite file and a driver that runs the stages over it."""
