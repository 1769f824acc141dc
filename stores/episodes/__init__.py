"""Episodes in LanceDB: written in batches by one process, searched by words and by meaning from any."""

from stores.episodes.browse import Place
from stores.episodes.errors import EpisodeStoreError
from stores.episodes.filters import EpisodeFilter
from stores.episodes.hits import Hit
from stores.episodes.merge import Effect
from stores.episodes.store import EpisodeStore, StoreStats
from stores.episodes.writable import WritableEpisodeStore

__all__ = ["Effect", "EpisodeFilter", "EpisodeStore", "EpisodeStoreError", "Hit", "Place", "StoreStats", "WritableEpisodeStore"]
