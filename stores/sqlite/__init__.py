"""Insights in SQLite: rows, full text, vectors, history, and the one writer's bookkeeping, in one file."""

from stores.sqlite.connection import BACKENDS, Backend, usable_backends
from stores.sqlite.errors import BadQuery, FencedOut, StoreError
from stores.sqlite.filters import InsightFilter, Order, SignalFilter
from stores.sqlite.inquiries import Fate, Page, through
from stores.sqlite.links import Link, Organised
from stores.sqlite.ranking import Mark, Trail
from stores.sqlite.rows import Changed, HistoryEntry, OutboxRow, Place
from stores.sqlite.store import EmbedderInfo, Hit, InsightStore, StoreStats
from stores.sqlite.uses import NoteVerdict, Tally, UseCount
from stores.sqlite.writable import RefusedOperation, Transaction, WritableInsightStore

__all__ = [
    "BACKENDS",
    "Backend",
    "BadQuery",
    "Changed",
    "EmbedderInfo",
    "Fate",
    "FencedOut",
    "HistoryEntry",
    "Hit",
    "InsightFilter",
    "InsightStore",
    "Link",
    "Mark",
    "NoteVerdict",
    "Order",
    "Organised",
    "OutboxRow",
    "Page",
    "Place",
    "RefusedOperation",
    "SignalFilter",
    "StoreError",
    "StoreStats",
    "Tally",
    "Trail",
    "Transaction",
    "UseCount",
    "WritableInsightStore",
    "through",
    "usable_backends",
]
