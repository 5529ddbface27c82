"""What a rate class keeps when its terms change, checked against exact fractions."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headgate.model.policy import RateClassPolicy

WINDOWS = st.integers(1, 10**13)


@given(
    scaled=st.integers(-(2**62), 2**62),
    old_window_ms=WINDOWS,
    window_ms=WINDOWS,
    burst=st.integers(1, 10**6),
)
def test_no_token_is_made_and_less_than_a_unit_is_lost(
    scaled: int, old_window_ms: int, window_ms: int, burst: int
) -> None:
    policy = RateClassPolicy(limit=5, window_ms=window_ms, burst=burst)
    tokens, remainder = policy.holding(scaled, old_window_ms, stopped=False)
    assert 0 <= remainder < window_ms
    assert tokens <= burst
    assert tokens < burst or remainder == 0
    held = min(Fraction(scaled, old_window_ms), Fraction(burst))
    kept = tokens + Fraction(remainder, window_ms)
    assert 0 <= held - kept < Fraction(1, window_ms)


@given(scaled=st.integers(-(2**62), 2**62), window_ms=WINDOWS)
def test_a_stopped_class_keeps_its_debt_alone(scaled: int, window_ms: int) -> None:
    for policy, stopped in (
        (RateClassPolicy(limit=0, window_ms=1), False),
        (RateClassPolicy(limit=5, window_ms=1, paused=True), False),
        (RateClassPolicy(limit=5, window_ms=1), True),
    ):
        expected = min(0, scaled // window_ms)
        assert policy.holding(scaled, window_ms, stopped=stopped) == (expected, 0)
