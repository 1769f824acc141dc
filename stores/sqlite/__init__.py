"""Insights in SQLite: rows, full text, vectors, history, and the one writer's bookkeeping, in one file."""

from stores.sqlite.connection import BACKENDS, Backend, usable_backends
from stores.sqlite.errors import BadQuery, FencedOut, StoreError
from stores.sqlite.filters import InsightFilter, Order, SignalFilter
from stores.sqlite.rows import HistoryEntry, OutboxRow
from stores.sqlite.store import EmbedderInfo, Hit, InsightStore, Page, StoreStats
from stores.sqlite.writable import RefusedOperation, Transaction, WritableInsightStore

__all__ = [
    "BACKENDS",
    "Backend",
    "BadQuery",
    "EmbedderInfo",
    "FencedOut",
    "HistoryEntry",
    "Hit",
    "InsightFilter",
    "InsightStore",
    "Order",
    "OutboxRow",
    "Page",
    "RefusedOperation",
    "SignalFilter",
    "StoreError",
    "StoreStats",
    "Transaction",
    "WritableInsightStore",
    "usable_backends",
]
