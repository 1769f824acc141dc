"""Stores out of the log alone (law 1): every sink's topics folded from their first record into empty stores.

No model is called for words: what was said stands in the operations. Vectors of insights come from the embedder, whose rows are
bit-identical for the same text, or from its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from schemas.topics import Topic
from streams.batch import decoded
from streams.log import LogReader
from workers.stage import Delivery, Stage

BATCH = 500


def fold(log: LogReader, sinks: Sequence[Stage], on_progress: Callable[[int], None] = lambda records: None) -> int:
    """Fold every record of the sinks' topics into them; the number of records read.

    Records that do not decode were dead-lettered when they first came and are passed over, as they were then.
    """
    records = 0
    for sink in sinks:
        log_bound = getattr(sink, "bind", None)
        if log_bound is not None:
            log_bound(log.log_id)
        for topic in sink.inputs:
            for batch in _batches(log, topic):
                sink.handle(batch)
                records += len(batch)
                on_progress(records)
    return records


def _batches(log: LogReader, topic: Topic) -> Iterator[list[Delivery]]:
    for partition in range(log.partitions(topic.name)):
        offset = 0
        end = log.end_offsets(topic.name)[partition]
        while offset < end:
            records = log.read(topic.name, partition, offset, min(BATCH, end - offset))
            if not records:
                break
            offset = records[-1].offset + 1
            yield [fed.delivery for record in records if (fed := decoded(topic, record)).delivery is not None]
