"""The tools' arguments, with what they mean: this is what a model reads before it calls."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from gateway.rest.bodies import MAX_QUERY, InsightId, Key, Reason, RequestId, When, Words
from schemas.claims import Category

RequestIdArgument = Annotated[
    RequestId, Field(description="an id that you make up for this one intention (a UUID, say) and send again when you retry")
]
Question = Annotated[str, Field(max_length=MAX_QUERY, description="any text: what you are about to do, or want to know")]
ToolName = Annotated[str | None, Field(max_length=128, description="only memories of this tool, such as swap")]
Chain = Annotated[str | None, Field(max_length=64, description="only of this chain, by its number: 1, 8453, …")]
Pair = Annotated[str | None, Field(max_length=256, description="only of this market, as in a memory's `pair`")]
Regime = Annotated[str | None, Field(max_length=64, description="the market regime you are in; memories of it are preferred")]
Categories = Annotated[list[Category] | None, Field(max_length=13, description="only insights of these categories")]
MinConfidence = Annotated[Decimal | None, Field(ge=0, le=1, description="only insights that are at least this sure")]
Since = Annotated[When | None, Field(description="only what happened from then on, with a time zone")]
Until = Annotated[When | None, Field(description="only what happened before then, with a time zone")]
AsOf = Annotated[When | None, Field(description="answer with what was known at that time")]
Few = Annotated[int | None, Field(ge=1, le=100, description="at most so many")]
Why = Annotated[Reason, Field(description="why, for who reads the history")]
OfInsight = Annotated[InsightId, Field(description="the insight's id")]
About = Annotated[Key, Field(description="what it is about: tool:chain:pair, or * for anything")]
Said = Annotated[Words, Field(description="one statement in your own words, at most 2,000 characters")]
