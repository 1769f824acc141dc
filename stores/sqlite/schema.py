"""The tables, step by step. A published step is never edited (see ``migrations``).

What is not here: the vec0 table. Only a connection with sqlite-vec can make or read it, so it is derived from ``vectors`` by
whoever can (see ``vectors``).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: its number, what it is about, and the statements."""

    id: int
    name: str
    statements: tuple[str, ...]


_INSIGHTS = Migration(
    1,
    "insights",
    (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
        # What filters and orders read, and no more, so that reading all of it is quick. Confidence in millionths: exact.
        """
        CREATE TABLE insights (
            n INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            revision INTEGER NOT NULL,
            category TEXT NOT NULL,
            status TEXT NOT NULL,
            confidence_ppm INTEGER NOT NULL CHECK (confidence_ppm BETWEEN 0 AND 1000000),
            key TEXT NOT NULL,
            tool TEXT NOT NULL,
            chain TEXT NOT NULL,
            pair TEXT NOT NULL,
            metric TEXT NOT NULL,
            simulated INTEGER NOT NULL,
            created_us INTEGER NOT NULL,
            validated_us INTEGER NOT NULL
        ) STRICT
        """,
        # json is the contract and the truth; folded is what substring search reads: text, label and key in one, case folded.
        """
        CREATE TABLE documents (
            n INTEGER PRIMARY KEY REFERENCES insights (n),
            folded TEXT NOT NULL,
            json TEXT NOT NULL
        ) STRICT
        """,
        "CREATE INDEX insights_by_key ON insights (key)",
        # No extra token characters: a query is tokenised like the text, so `gas_timing`, `0.30` and `uniswap-v3` are phrases
        # of adjacent tokens, and an address or a hash is one token of letters and digits, however long.
        """
        CREATE VIRTUAL TABLE insights_text USING fts5 (text, about, tokenize = 'unicode61 remove_diacritics 2')
        """,
    ),
)

_VECTORS = Migration(
    2,
    "vectors",
    (
        "CREATE TABLE vectors (n INTEGER PRIMARY KEY REFERENCES insights (n), vector BLOB NOT NULL) STRICT",
        # seq counts changes of vectors; vec0_seq is the count up to which the vec0 table has followed.
        "CREATE TABLE vector_state (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, vec0_seq INTEGER) STRICT",
        "INSERT INTO vector_state (id, seq, vec0_seq) VALUES (1, 0, NULL)",
    ),
)

_OPERATIONS = Migration(
    3,
    "operations",
    (
        """
        CREATE TABLE history (
            insight_id TEXT NOT NULL REFERENCES insights (id),
            revision INTEGER NOT NULL,
            op_id TEXT NOT NULL,
            kind TEXT NOT NULL,
            ts_us INTEGER NOT NULL,
            author TEXT NOT NULL,
            reason TEXT NOT NULL,
            confidence_before TEXT,
            confidence_after TEXT NOT NULL,
            evidence TEXT,
            PRIMARY KEY (insight_id, revision)
        ) STRICT, WITHOUT ROWID
        """,
        # Where an operation was first seen tells a redelivery (same place) from a duplicate (another place).
        """
        CREATE TABLE processed (
            op_id TEXT PRIMARY KEY,
            topic TEXT NOT NULL,
            partition INTEGER NOT NULL,
            position INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
        # By place, not by id: the same operation, sent again later, may apply by then.
        """
        CREATE TABLE refused (
            topic TEXT NOT NULL,
            partition INTEGER NOT NULL,
            position INTEGER NOT NULL,
            op_id TEXT NOT NULL,
            reason TEXT NOT NULL,
            detail TEXT NOT NULL,
            PRIMARY KEY (topic, partition, position)
        ) STRICT, WITHOUT ROWID
        """,
    ),
)

_SIGNALS = Migration(
    4,
    "signals",
    (
        """
        CREATE TABLE signals (
            id TEXT PRIMARY KEY,
            ts_us INTEGER NOT NULL,
            level TEXT NOT NULL,
            stream TEXT NOT NULL,
            key TEXT NOT NULL,
            metric TEXT NOT NULL,
            simulated INTEGER NOT NULL,
            topic TEXT NOT NULL,
            partition INTEGER NOT NULL,
            position INTEGER NOT NULL,
            json TEXT NOT NULL
        ) STRICT
        """,
        "CREATE INDEX signals_by_time ON signals (ts_us, id)",
    ),
)

_WRITER = Migration(
    5,
    "writer",
    (
        """
        CREATE TABLE offsets (
            topic TEXT NOT NULL,
            partition INTEGER NOT NULL,
            next_offset INTEGER NOT NULL,
            log_id TEXT,
            PRIMARY KEY (topic, partition)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE outbox (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            topic TEXT NOT NULL,
            key TEXT NOT NULL,
            message_id TEXT NOT NULL,
            ts_ms INTEGER NOT NULL,
            value BLOB NOT NULL
        ) STRICT
        """,
        "CREATE TABLE writer (id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL, seen INTEGER NOT NULL) STRICT",
        "INSERT INTO writer (id, epoch, seen) VALUES (1, 0, 0)",
    ),
)

_STATEMENTS = Migration(
    6,
    "what people and agents state, and what is used",
    (
        "CREATE INDEX history_by_operation ON history (op_id)",
        # said: what an active note says, as an id of its words (schemas/identity.py), so that the same words are found at once.
        "CREATE TABLE notes (n INTEGER PRIMARY KEY REFERENCES insights (n), said TEXT NOT NULL) STRICT",
        "CREATE INDEX notes_by_words ON notes (said)",
        """
        CREATE TABLE verdicts (
            op_id TEXT PRIMARY KEY,
            event TEXT NOT NULL,
            insight_id TEXT,
            other_id TEXT,
            similarity REAL,
            why TEXT NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE uses (
            use_id TEXT PRIMARY KEY,
            agent_id TEXT NOT NULL,
            ts_us INTEGER NOT NULL,
            topic TEXT NOT NULL,
            partition INTEGER NOT NULL,
            position INTEGER NOT NULL,
            json TEXT NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX uses_by_time ON uses (ts_us, use_id)",
        """
        CREATE TABLE used_memories (
            memory_id TEXT NOT NULL,
            use_id TEXT NOT NULL REFERENCES uses (use_id),
            used INTEGER NOT NULL,
            ts_us INTEGER NOT NULL,
            PRIMARY KEY (memory_id, use_id)
        ) STRICT, WITHOUT ROWID
        """,
    ),
)

_TUNINGS = Migration(
    7,
    "recall's settings that were changed",
    (
        """
        CREATE TABLE tunings (
            name TEXT PRIMARY KEY,
            value TEXT NOT NULL,
            author TEXT NOT NULL,
            reason TEXT NOT NULL,
            ts_us INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
    ),
)

_LINKS = Migration(
    8,
    "links, what is organised, and when the ranker was told to learn or to forget",
    (
        """
        CREATE TABLE links (
            source_id TEXT NOT NULL,
            target_id TEXT NOT NULL,
            relation TEXT NOT NULL,
            strength REAL NOT NULL,
            author TEXT NOT NULL,
            reason TEXT NOT NULL,
            ts_us INTEGER NOT NULL,
            PRIMARY KEY (source_id, target_id)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX links_by_target ON links (target_id)",
        # cites: the insights whose words the note quotes, so that forgetting one finds it.
        """
        CREATE TABLE organised (
            insight_id TEXT PRIMARY KEY,
            keywords TEXT NOT NULL,
            context_note TEXT,
            cites TEXT NOT NULL,
            basis TEXT NOT NULL,
            ts_us INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE ranker_marks (
            op_id TEXT PRIMARY KEY,
            action TEXT NOT NULL,
            ts_us INTEGER NOT NULL,
            author TEXT NOT NULL,
            reason TEXT NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
    ),
)

_LIFE = Migration(
    9,
    "what became of uses, what was merged, what each change changed",
    (
        # changes: the fields of the insight that an operation changed, so that every state it was in can be told again.
        "ALTER TABLE history ADD COLUMN changes TEXT",
        # How decisions ended that a memory went into. occasion: the execution that came of it, or else the use itself.
        """
        CREATE TABLE outcomes (
            memory_id TEXT NOT NULL,
            occasion TEXT NOT NULL,
            ended TEXT NOT NULL,
            PRIMARY KEY (memory_id, occasion, ended)
        ) STRICT, WITHOUT ROWID
        """,
        """
        INSERT INTO outcomes (memory_id, occasion, ended)
        SELECT DISTINCT memory_id, coalesce('event ' || (json ->> '$.event_id'), 'use ' || use_id), json ->> '$.ended'
        FROM used_memories JOIN uses USING (use_id) WHERE used = 1 AND json ->> '$.ended' IN ('success', 'failure')
        """,
        "CREATE TABLE merged (insight_id TEXT PRIMARY KEY, into_id TEXT NOT NULL) STRICT, WITHOUT ROWID",
        "CREATE INDEX merged_by_target ON merged (into_id)",
        "CREATE INDEX signals_by_key ON signals (key, metric, ts_us)",
    ),
)

_STANDINGS = Migration(
    10,
    "how portfolios stand",
    ("CREATE TABLE standings (key TEXT PRIMARY KEY, ts_us INTEGER NOT NULL, json TEXT NOT NULL) STRICT, WITHOUT ROWID",),
)

_PLACES = Migration(
    11,
    "applied operations by place, so that what changed since one is found at once",
    ("CREATE INDEX processed_by_place ON processed (topic, partition, position)",),
)

_REGIMES = Migration(
    12,
    "regimes and the models that tell them",
    (
        "CREATE TABLE regime_models (id TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT, WITHOUT ROWID",
        # A regime of a key, real or simulated, begins at from_us; that was known at known_us. It lasts until the next one begins.
        """
        CREATE TABLE regimes (
            signal_id TEXT PRIMARY KEY,
            key TEXT NOT NULL,
            simulated INTEGER NOT NULL,
            metric TEXT NOT NULL,
            regime TEXT NOT NULL,
            from_us INTEGER NOT NULL,
            known_us INTEGER NOT NULL,
            probability REAL NOT NULL,
            model_id TEXT NOT NULL REFERENCES regime_models (id)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX regimes_by_key ON regimes (key, simulated, from_us, known_us, signal_id)",
    ),
)

_TRACES = Migration(13, "the trace of an announcement", ("ALTER TABLE outbox ADD COLUMN trace TEXT",))

MIGRATIONS = (
    _INSIGHTS,
    _VECTORS,
    _OPERATIONS,
    _SIGNALS,
    _WRITER,
    _STATEMENTS,
    _TUNINGS,
    _LINKS,
    _LIFE,
    _STANDINGS,
    _PLACES,
    _REGIMES,
    _TRACES,
)
