"""Apache Kafka on loopback without Docker, for developers and CI: ``python -m deploy.kafka up``."""
