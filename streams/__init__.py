"""The brokers' side: the log, the drivers that move records through stages, publisher and subscriber."""
