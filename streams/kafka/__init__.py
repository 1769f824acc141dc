"""The same stages on Apache Kafka: needs the ``kafka`` extra, which is imported only when a function here is called."""
