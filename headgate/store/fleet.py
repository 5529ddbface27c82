"""The processes of an installation: their leases on duties, and what they say of themselves."""

from collections.abc import Sequence

from headgate.model.errors import InvalidRequest, NotFound
from headgate.model.fleet import COMMANDS
from headgate.model.job import WorkerBeat
from headgate.queries.duties import claim_duty, release_duty, report_duty
from headgate.queries.kinds import waiting_kinds
from headgate.queries.workers import heartbeat, leave, signal, take_command
from headgate.store.database import Database, Executor


class Duties:
    """Leases on duties, one holder each, on the database's clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, name: str, holder: str, lease_ms: int) -> bool:
        """Takes or extends the lease of a duty; whether `holder` has it now."""
        if lease_ms < 1:
            raise InvalidRequest("duty lease must be >= 1ms")
        parameters = {"duty_name": name, "duty_holder": holder, "lease_ms": lease_ms}
        return bool(await self._database.fetch(claim_duty(), parameters))

    async def report(
        self, name: str, holder: str, lease_ms: int, *, handled: int, done: bool, interval_ms: int
    ) -> bool:
        """Notes that `holder` handled so many rows, and extends its lease; whether it still has it.

        With `done`, nothing was left for now; `interval_ms` is when it will look again. Without
        effect for anyone but the holder.
        """
        parameters = {
            "duty_name": name,
            "duty_holder": holder,
            "lease_ms": lease_ms,
            "handled_rows": handled,
            "is_done": done,
            "duty_interval_ms": interval_ms,
        }
        return bool(await self._database.fetch(report_duty(), parameters))

    async def release(self, name: str, holder: str) -> None:
        """Lets the duty go at once; without effect for anyone but its holder."""
        await self._database.fetch(release_duty(), {"duty_name": name, "duty_holder": holder})


class Workers:
    """The registry of workers and their mailbox of one command each."""

    def __init__(self, database: Executor) -> None:
        self._database = database

    async def heartbeat(self, beat: WorkerBeat) -> str | None:
        """Writes the beat and hands over the command that waits for this worker, if any.

        A command is consumed by this: it is cleared before the worker acts on it, so that a
        successor of the same id does not find it.
        """
        rows = await self._database.fetch(
            heartbeat(),
            {
                "beat_worker_id": beat.worker_id,
                "beat_host": beat.host,
                "beat_pid": beat.pid,
                "beat_queues": list(beat.queues),
                "beat_concurrency": beat.concurrency,
                "beat_inflight": beat.inflight,
                "beat_polls": beat.polls,
                "beat_empty_polls": beat.empty_polls,
                "beat_status": beat.status,
                "beat_duties_active": beat.duties_active,
            },
        )
        command: str | None = rows[0]["command"]
        if command is None:
            return None
        taken = await self._database.fetch(
            take_command(), {"beat_worker_id": beat.worker_id, "taken_command": command}
        )
        return command if taken else None

    async def signal(self, worker_id: str, command: str | None) -> None:
        """Leaves a command for a worker, or takes it back with None.

        Raises `InvalidRequest` for a command that does not exist and `NotFound` for a worker.
        """
        if command is not None and command not in COMMANDS:
            raise InvalidRequest("command must be quiet, resume, restart, terminate, or resign")
        rows = await self._database.fetch(
            signal(), {"beat_worker_id": worker_id, "new_command": command}
        )
        if not rows:
            raise NotFound(f"worker {worker_id}")

    async def leave(self, worker_id: str) -> None:
        """Takes a worker that has ended off the registry; one of the same id that lives comes back
        with its next heartbeat.
        """
        await self._database.fetch(leave(), {"beat_worker_id": worker_id})

    async def waiting_kinds(self, queues: Sequence[str]) -> list[str]:
        """The kinds of jobs that wait in these queues, looking at up to 1,000 kinds and at one job
        of each.
        """
        rows = await self._database.fetch(waiting_kinds(), {"served_queues": list(queues)})
        return [row["kind"] for row in rows]
