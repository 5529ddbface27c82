"""Fingerprints that are held back because their jobs killed their workers."""

import msgspec


class QuarantinedFingerprint(msgspec.Struct, kw_only=True):
    """One entry of the quarantine; `kind` and `crash_count` are those of the job that caused it."""

    fingerprint: str
    kind: str
    crash_count: int
    quarantined_at_ms: int
    reason: str


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """What a release did: jobs that are available again, and jobs that stay parked because the
    unique key of each was taken meanwhile.
    """

    released: int
    clashes: int
