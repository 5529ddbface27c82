"""What the holder of a lease may do: acknowledge and renew."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Executable

from headgate.model.errors import InvalidRequest
from headgate.model.job import Acknowledgement, Lease, Settlement
from headgate.model.lifecycle import DELETED, Outcome
from headgate.model.limits import check_count, check_milliseconds
from headgate.model.texts import clean
from headgate.queries.charges import settle_charges
from headgate.queries.outcomes import conclude, renew, revoke, succeed
from headgate.store.database import Executor, Row, Session

_CONCLUSIONS: Final = frozenset(Outcome) - {Outcome.SUCCESS, Outcome.REVOKE}

_encode_json: Final = msgspec.json.Encoder().encode


class Leases:
    """Reports and renewals of running attempts, each answered per lease."""

    def __init__(self, database: Executor) -> None:
        self._database = database

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> list[Settlement]:
        """Ends attempts as their holders report; an answer for each, in order.

        A settlement with state None means that the lease was lost: nothing was changed and the
        work must stop. One lease stands in for one attempt, whatever becomes of the others; of two
        reports on one lease the first is taken. Texts are cleaned rather than refused. Raises
        `InvalidRequest` before anything is written for a delay, a weight or a result that cannot
        be stored, and `StoreUnavailable`; then some of the reports may have been taken, and
        repeating them answers None for those.
        """
        for report in acknowledgements:
            judge(report)
        # Each lease once, the first report counting. Sorted, so that two batches that share leases
        # take their rows in one order.
        reports = {report.lease: report for report in reversed(acknowledgements)}
        held = sorted(reports.values(), key=_by_job)
        if any(report.actual_weight is not None for report in held):
            states = await self._database.transact(lambda session: _settle(session, held))
        else:
            states = await _end(self._database, held)
        return [
            Settlement(report.lease.job_id, states.pop(report.lease, None))
            for report in acknowledgements
        ]

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> list[str]:
        """Extends held leases to `lease_ms` from now; the ids of the jobs whose lease is lost.

        It waits for nobody: a row that somebody is writing just now, its own acknowledgement for
        example, is neither extended nor lost.

        Raises `InvalidRequest` for a lease below one millisecond, and `StoreUnavailable`.
        """
        if lease_ms < 1:
            raise InvalidRequest("lease must be >= 1ms")
        if not leases:
            return []
        rows = await self._database.fetch(renew(), {**lease_arrays(leases), "lease_ms": lease_ms})
        held = {_lease(row) for row in rows}
        return [lease.job_id for lease in leases if lease not in held]


async def _settle(session: Session, reports: Sequence[Acknowledgement]) -> dict[Lease, str]:
    """Corrects what the gate charged and ends the attempts, both or neither."""
    weighed = [report for report in reports if report.actual_weight is not None]
    await session.fetch(settle_charges(), charge_parameters(weighed))
    return await _end(session, reports)


def charge_parameters(weighed: Sequence[Acknowledgement]) -> dict[str, Any]:
    """For `settle_charges`: what the attempts really cost."""
    parameters = lease_arrays(report.lease for report in weighed)
    parameters["actual_weight_array"] = [report.actual_weight for report in weighed]
    return parameters


async def _end(executor: Executor, reports: Sequence[Acknowledgement]) -> dict[Lease, str]:
    """The states that the jobs went to, of the leases that were held."""
    states = await _succeed(executor, _ended(reports, Outcome.SUCCESS))
    states |= await _revoke(executor, _ended(reports, Outcome.REVOKE))
    states |= await _conclude(executor, _ended(reports, *_CONCLUSIONS))
    return states


async def _succeed(executor: Executor, reports: Sequence[Acknowledgement]) -> dict[Lease, str]:
    if not reports:
        return {}
    rows = await executor.fetch(*success_statement(reports))
    return {_lease(row): row["state"] for row in rows}


def success_statement(reports: Sequence[Acknowledgement]) -> tuple[Executable, dict[str, Any]]:
    """What ends these attempts in success, with its parameters."""
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
    return succeed(results=results, logs=logs), parameters


async def _revoke(executor: Executor, reports: Sequence[Acknowledgement]) -> dict[Lease, str]:
    if not reports:
        return {}
    rows = await executor.fetch(revoke(), lease_arrays(report.lease for report in reports))
    return {_lease(row): DELETED for row in rows}


async def _conclude(executor: Executor, reports: Sequence[Acknowledgement]) -> dict[Lease, str]:
    if not reports:
        return {}
    parameters: dict[str, Any] = {
        **lease_arrays(report.lease for report in reports),
        "outcome_array": [report.outcome.value for report in reports],
        "error_array": [
            None if report.error is None else clean(report.error) for report in reports
        ],
        "delay_ms_array": [report.delay_ms for report in reports],
        "logs_array": [_logs(report) for report in reports],
    }
    rows = await executor.fetch(conclude(), parameters)
    return {_lease(row): row["state"] for row in rows}


def judge(report: Acknowledgement) -> None:
    """Refuses what no row can take, since it would fail the reports beside it."""
    if report.outcome is Outcome.SNOOZE and (report.delay_ms or 0) <= 0:
        raise InvalidRequest("snooze requires delay_ms > 0")
    if report.delay_ms is not None:
        check_milliseconds("delay_ms", report.delay_ms)
    if report.actual_weight is not None:
        check_count("actual_weight", report.actual_weight)
    if report.result is not None:
        if report.result.schema_version < 1:
            raise InvalidRequest("result schema_version must be greater than zero")
        check_count("result schema_version", report.result.schema_version)


def _by_job(report: Acknowledgement) -> str:
    return report.lease.job_id


def _ended(reports: Sequence[Acknowledgement], *outcomes: Outcome) -> list[Acknowledgement]:
    return [report for report in reports if report.outcome in outcomes]


def _lease(row: Row) -> Lease:
    return Lease(row["job_id"], row["lease_id"], row["fence"])


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
