"""Whatever a handler says can be stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.texts import CUT_MARK, MAX_TEXT_BYTES, clean

# Joined from pieces: within st.text the awkward characters would be as rare as any other.
pieces = st.text(max_size=8) | st.sampled_from(["\0", "\ud800", "\udfff", "é", "🐘", " [cut]"])
any_text = st.lists(pieces, max_size=20).map("".join)


@pytest.mark.parametrize("text", ["", "plain", "with\nlines\tand\x01controls", "é🐘"])
def test_an_ordinary_text_is_kept_as_it_is(text: str) -> None:
    assert clean(text) == text


def test_nul_is_removed() -> None:
    assert clean("a\0b\0") == "ab"


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert clean("a\ud800b\udc00\ud800") == "a\ufffdb\ufffd\ufffd"


def test_a_long_text_is_cut_with_a_mark() -> None:
    cut = clean("x" * 2_000_000)
    assert len(cut) == MAX_TEXT_BYTES
    assert cut.endswith("x" + CUT_MARK)
    assert clean("x" * MAX_TEXT_BYTES) == "x" * MAX_TEXT_BYTES


def test_a_text_is_not_cut_within_a_character() -> None:
    cut = clean("🐘" * 10_000)
    assert MAX_TEXT_BYTES - 4 < len(cut.encode()) <= MAX_TEXT_BYTES
    assert set(cut.removesuffix(CUT_MARK)) == {"🐘"}


def test_what_is_removed_does_not_count() -> None:
    assert clean("\0" * 100_000 + "kept") == "kept"


@given(any_text, st.integers(16, 64))
def test_the_result_can_always_be_stored(text: str, max_bytes: int) -> None:
    result = clean(text, max_bytes)
    assert len(result.encode()) <= max_bytes
    assert "\0" not in result
    assert clean(result, max_bytes) == result
