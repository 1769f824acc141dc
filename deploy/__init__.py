"""How it is run: images, compose parts, manifests, and Kafka without Docker."""
