"""What is kept: SQLite, LanceDB, the embedding model and its cache."""
