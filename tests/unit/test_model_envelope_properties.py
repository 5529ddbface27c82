"""Whatever `prepare` lets through, the columns can hold."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.model.envelope import Envelope, prepare
from headgate.model.errors import HeadgateError
from headgate.model.limits import MAX_MS

names = st.text("abé", max_size=60)
tags = st.lists(st.text("ab", min_size=1, max_size=64), max_size=3, unique=True).map(tuple)
counts = st.integers(0, 2**31 - 1)
milliseconds = st.integers(0, MAX_MS)
sound_envelopes = st.builds(
    Envelope,
    id=names,
    kind=st.sampled_from(["mail", "post"]),
    schema_version=counts,
    payload=st.binary(max_size=8),
    queue=names,
    weight=counts,
    priority=st.integers(-(2**31), 2**31 - 1),
    max_attempts=counts,
    scheduled_at_ms=milliseconds,
    retention_ms=milliseconds,
    unique_key=st.none() | st.binary(max_size=1),
    unique_window_ms=milliseconds,
    headers=st.dictionaries(names, names, max_size=2),
    tags=tags,
)
awkward_texts = st.sampled_from(["\0", "a\ud800", "\udfffa", "a" * 256, "é" * 128])
awkward_numbers = st.sampled_from([-1, -(2**31) - 1, 2**31, 2**47, MAX_MS + 1, 2**63])
damage = st.one_of(
    st.none(),
    st.tuples(st.sampled_from(["id", "queue", "fingerprint"]), awkward_texts),
    st.tuples(st.just("headers"), st.dictionaries(awkward_texts, names)),
    st.tuples(st.just("tags"), st.tuples(awkward_texts)),
    st.tuples(
        st.sampled_from(
            ["schema_version", "weight", "priority", "scheduled_at_ms", "unique_window_ms"]
        ),
        awkward_numbers,
    ),
)


@given(st.lists(sound_envelopes, min_size=1, max_size=2), damage)
def test_what_passes_fits_its_columns(
    envelopes: list[Envelope], damaged: tuple[str, Any] | None
) -> None:
    if damaged is not None:
        setattr(envelopes[-1], *damaged)
    try:
        prepared = prepare(envelopes)
    except HeadgateError:
        return
    assert len(prepared) == len(envelopes)
    for envelope in prepared:
        texts = [envelope.id, envelope.queue, envelope.fingerprint, *envelope.tags]
        texts += [*envelope.headers, *envelope.headers.values()]
        assert all("\0" not in text and text.encode() is not None for text in texts)
        for number in (envelope.schema_version, envelope.weight, envelope.max_attempts):
            assert 1 <= number < 2**31
        assert -(2**31) <= envelope.priority < 2**31
        for instant in (envelope.scheduled_at_ms, envelope.retention_ms, envelope.unique_window_ms):
            assert 0 <= instant <= MAX_MS
    assert len({envelope.id for envelope in prepared}) == len(prepared)
