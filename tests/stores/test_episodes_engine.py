"""LanceDB imported lean: the same store, without pandas and without the catalogue's client; pandas still works afterwards."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

LEAN = """
import sys
from pathlib import Path
from stores.episodes.engine import lean_import
assert lean_import()
assert not lean_import()
from stores.episodes import Effect, EpisodeFilter, EpisodeStore, WritableEpisodeStore
from tests.support.episodes import EMBEDDER, INFO, At, batch, episode
folder = Path(sys.argv[1])
with WritableEpisodeStore.open(folder, INFO, segment_rows=20) as store:
    store.record(batch(0, 30))
    assert store.record([(At(30), episode(3, removed=True))]) == [Effect.UPDATED]
    store.compact()
    with EpisodeStore.open(folder) as reader:
        assert reader.count() == 30
        assert [hit.id for hit in reader.search_text("number 17", limit=1)] == [episode(17).id]
        assert reader.search("number 21", EMBEDDER, EpisodeFilter(tool="probe"), limit=1)[0].id == episode(21).id
        assert reader.get(episode(5).id) == episode(5)
        assert len(list(reader.fingerprint_parts())) == 30
loaded = [name for name in sys.modules if name.partition(".")[0] in ("pandas", "lance_namespace", "lance_namespace_urllib3_client")]
assert loaded == [], loaded
"""
PANDAS = """
import pandas, pyarrow
frame = pandas.DataFrame({"n": [1.5, None], "text": ["a", None]})
table = pyarrow.Table.from_pandas(frame)
assert table.column("n").null_count == 1
pandas.testing.assert_frame_equal(table.to_pandas(), frame)
"""


def test_a_lean_lancedb_does_all_that_the_store_needs_and_spoils_nothing(tmp_path: Path) -> None:
    program = LEAN + (PANDAS if find_spec("pandas") else "")
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "episodes")], cwd=Path(__file__).parents[2], check=True)
