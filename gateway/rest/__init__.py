"""The REST API over HTTP: closed by default, loopback by default."""
