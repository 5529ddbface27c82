"""What the holder of a lease may do: acknowledge and renew."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from headgate.model.errors import InvalidRequest
from headgate.model.job import Acknowledgement, Lease, Settlement
from headgate.model.lifecycle import DELETED, Outcome
from headgate.model.texts import clean
from headgate.queries.outcomes import conclude, renew, revoke, succeed
from headgate.store.database import Database

_encode_json: Final = msgspec.json.Encoder().encode


class Leases:
    """Reports and renewals of running attempts, each answered per lease."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> list[Settlement]:
        """Ends attempts as their holders report; an answer for each, in order.

        A settlement with state None means that the lease was lost: nothing was changed and the
        work must stop. One lease stands in for one attempt, whatever becomes of the others. Texts
        are cleaned rather than refused. Raises `InvalidRequest` before anything is written when a
        snooze has no positive delay, and `StoreUnavailable`; then some of the reports may have been
        taken, and repeating them answers None for those.
        """
        successes: list[Acknowledgement] = []
        revocations: list[Acknowledgement] = []
        others: list[Acknowledgement] = []
        for report in acknowledgements:
            if report.outcome is Outcome.SUCCESS:
                successes.append(report)
            elif report.outcome is Outcome.REVOKE:
                revocations.append(report)
            else:
                others.append(report)
                if report.outcome is Outcome.SNOOZE and (report.delay_ms or 0) <= 0:
                    raise InvalidRequest("snooze requires delay_ms > 0")
                if (report.delay_ms or 0) < 0:
                    raise InvalidRequest("delay_ms must be >= 0")
        states: dict[tuple[str, int], str] = {}
        if successes:
            states |= await self._succeed(successes)
        if revocations:
            leases = lease_arrays(report.lease for report in revocations)
            rows = await self._database.fetch(revoke(), leases)
            states |= {(row["job_id"], row["fence"]): DELETED for row in rows}
        if others:
            states |= await self._conclude(others)
        return [
            Settlement(report.lease.job_id, states.get((report.lease.job_id, report.lease.fence)))
            for report in acknowledgements
        ]

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> list[str]:
        """Extends held leases to `lease_ms` from now; the ids of the jobs whose lease is lost.

        Raises `InvalidRequest` for a lease below one millisecond, and `StoreUnavailable`.
        """
        if lease_ms < 1:
            raise InvalidRequest("lease must be >= 1ms")
        if not leases:
            return []
        rows = await self._database.fetch(renew(), {**lease_arrays(leases), "lease_ms": lease_ms})
        held = {(row["job_id"], row["fence"]) for row in rows}
        return [lease.job_id for lease in leases if (lease.job_id, lease.fence) not in held]

    async def _succeed(self, reports: Sequence[Acknowledgement]) -> dict[tuple[str, int], str]:
        parameters = lease_arrays(report.lease for report in reports)
        results = any(report.result for report in reports)
        if results:
            parameters["result_schema_version_array"] = [
                report.result.schema_version if report.result else None for report in reports
            ]
            parameters["result_bytes_array"] = [
                report.result.bytes if report.result else None for report in reports
            ]
        logs = any(report.logs for report in reports)
        if logs:
            parameters["logs_array"] = [_logs(report) for report in reports]
        rows = await self._database.fetch(succeed(results=results, logs=logs), parameters)
        return {(row["job_id"], row["fence"]): row["state"] for row in rows}

    async def _conclude(self, reports: Sequence[Acknowledgement]) -> dict[tuple[str, int], str]:
        parameters: dict[str, Any] = {
            **lease_arrays(report.lease for report in reports),
            "outcome_array": [report.outcome.value for report in reports],
            "error_array": [
                None if report.error is None else clean(report.error) for report in reports
            ],
            "delay_ms_array": [report.delay_ms for report in reports],
            "logs_array": [_logs(report) for report in reports],
        }
        rows = await self._database.fetch(conclude(), parameters)
        return {(row["job_id"], row["fence"]): row["state"] for row in rows}


def lease_arrays(leases: Iterable[Lease]) -> dict[str, Any]:
    held = list(leases)
    return {
        "job_id_array": [lease.job_id for lease in held],
        "lease_id_array": [lease.lease_id for lease in held],
        "fence_array": [lease.fence for lease in held],
    }


def _logs(report: Acknowledgement) -> str | None:
    if not report.logs:
        return None
    return _encode_json([clean(line) for line in report.logs]).decode()
