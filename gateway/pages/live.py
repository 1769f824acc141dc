"""Changes of insights as server-sent events for the pages, from now on; ends with the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import orjson

from gateway.rest.updates import LOOK_S, Lookout, Place
from gateway.writing import Log


async def live(log: Log, lookout: Lookout, still_here: Callable[[], bool]) -> AsyncIterator[str]:
    """Events named ``change``, each with the insight's id, the kind of operation and the new confidence; comments keep it alive.

    The lookout waits for every stream of the application with one thread.
    """
    place = await asyncio.to_thread(Place.at_end, log)
    yield ": listening\n\n"
    while await asyncio.to_thread(still_here):
        seen = await lookout.ends()
        found = await asyncio.to_thread(place.read, log) if place.behind(seen) else []
        for event_id, update in found:
            told = {
                "id": update.insight.id,
                "kind": update.kind,
                "revision": update.revision,
                "confidence": float(update.insight.confidence),
            }
            yield f"id: {event_id}\nevent: change\ndata: {orjson.dumps(told).decode()}\n\n"
        if not found:
            yield ": still here\n\n"
            await lookout.changed(seen, LOOK_S)
