"""Kinds of faults that other memories had, each with a test here that is named after it. Real stores, the real service.

deleting
- delete_of_one_users_memories_deletes_everybodys
- delete_reports_success_and_leaves_a_third
- the_same_text_twice_deletes_the_first
- deleted_rows_are_recalled_from_an_index
- deleted_rows_live_on_in_what_was_derived_from_them
- deleted_words_stay_in_files_and_caches
- deleted_words_stay_in_the_write_ahead_file
- one_delete_per_id

writing
- queued_then_dropped
- a_failed_vector_insert_is_only_logged
- a_clients_timeout_and_retry_makes_two_records
- two_genuine_identical_writes_collapse_to_one
- recalled_memories_are_taken_in_again_as_evidence
- a_changed_address_is_rejected_as_a_duplicate
- a_gap_between_two_thresholds_in_which_nothing_counts
- mentioning_an_entity_retires_unrelated_facts
- sold_against_owns_is_missed
- correcting_leaves_the_old_one_active
- an_update_drops_metadata_or_changes_one_index_only

keeping
- two_processes_on_one_file_without_wal
- a_deferred_transaction_upgrades
- thirty_megabytes_of_rows_grow_to_three_hundred_of_versions

asking
- k_4097_raises_and_limit_minus_one_is_everything
- a_filter_after_the_nearest_returns_nothing
- another_embedders_dimension
- text_beyond_the_models_tokens_is_unsearchable
- two_in_the_morning_is_filed_under_the_previous_day
- z_against_minus_seven
- a_malformed_date_opens_the_filter
- 2026_is_read_as_the_first_of_january
- punctuation_in_a_query_is_a_syntax_error
- chinese_without_spaces_finds_nothing
- nul_in_content
- an_injected_condition_opens_the_filter
- a_stored_instruction_is_handed_over_verbatim

More of some: what a brain rebuilt from its log knows (``tests/gateway/service/test_service.py``), retries and hostile arguments
over MCP (``tests/gateway/mcp``), generated requests (``tests/gateway/rest``), vectors in every backend (``tests/contracts``),
queries and filters by hypothesis (``tests/stores``).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent


def listed() -> dict[str, list[str]]:
    """The kinds of the list above, by chapter."""
    found: dict[str, list[str]] = {}
    chapter = ""
    for line in (__doc__ or "").splitlines():
        if re.fullmatch(r"[a-z]+", line):
            chapter = line
        elif line.startswith("- "):
            found.setdefault(chapter, []).append(line[2:])
    return found


def named_in(chapter: str) -> list[str]:
    """The names of a chapter's tests."""
    tree = ast.parse((HERE / f"test_{chapter}.py").read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def test_each_kind_has_a_test_that_is_named_after_it_and_each_test_a_kind() -> None:
    kinds = listed()
    assert sum(map(len, kinds.values())) >= 33
    assert {f"test_{chapter}.py" for chapter in kinds} == {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
    for chapter, names in kinds.items():
        assert sorted(named_in(chapter)) == sorted(f"test_{name}" for name in names), chapter
