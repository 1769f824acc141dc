"""Generated requests: no fault, no answer that the OpenAPI document does not name, no write without a key of the tier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.keys import Tier
from schemas.topics import TOPICS
from tests.support.api_fuzz import app_of, fuzz, fuzz_until
from tests.support.gateway import READER, Brain, running_brain
from tests.support.sqlite import add


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        running.publish(add("i"), add("j"))
        yield running


def records(brain: Brain) -> int:
    return sum(sum(brain.log.end_offsets(topic.name).values()) for topic in TOPICS)


def test_whatever_is_sent_the_answer_is_one_that_the_document_names(brain: Brain) -> None:
    answers = fuzz(app_of(brain), brain.key("fuzz", Tier.ADMIN), 5)
    assert answers.failures == []
    assert answers.sent > 150
    assert answers.statuses[200] > 20
    assert answers.statuses[422] > 20
    assert max(answers.statuses) < 500
    brain.settle()
    assert brain.service.stats(READER).pipeline == "here"


def test_whatever_a_reader_or_a_stranger_sends_nothing_is_written(brain: Brain) -> None:
    brain.settle()
    before = records(brain)
    reader = fuzz(app_of(brain), brain.key("reader", Tier.READ), 2, 7)
    stranger = fuzz(app_of(brain), "dbk_000000000000_" + "A" * 43, 1, 9)
    assert set(stranger.statuses) <= {401, 404, 405}
    assert not {202, 409} & set(reader.statuses)
    assert reader.statuses[403] > 10
    assert records(brain) == before


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_requests(tmp_path: Path) -> None:
    with running_brain(tmp_path) as fresh:
        fresh.publish(add("i"), add("j"))
        answers = fuzz_until(fresh, fresh.key("fuzz", Tier.ADMIN), 10_000)
        assert answers.failures == []
        assert answers.sent >= 10_000
        assert max(answers.statuses) < 500
        assert fresh.service.stats(READER).pipeline == "here"
