"""Putting jobs into states without the events that lead there."""

from typing import Final

import asyncpg

_PUT: Final = """
UPDATE headgate_job SET state = $2::text::headgate_state,
  lease_id = CASE WHEN $2 = 'running' THEN 'lease' END,
  lease_expires_at_ms = CASE WHEN $2 = 'running' THEN 9999999999999 END,
  claimed_by = CASE WHEN $2 = 'running' THEN 'worker' END, finalized_at_ms = $3
WHERE ulid = $1
"""


async def put_into(dsn: str, job_id: str, state: str, *, ended_ms: int | None = None) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(_PUT, job_id, state, ended_ms)
    await connection.close()
