"""Mutations that may be repeated: key, change and audit entry in one transaction."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.model.errors import RequestInProgress, RequestKeyReused
from headgate.model.idempotency import Answered, MutationRequest, StoredAnswer, is_kept
from headgate.queries.idempotency import find_answer, keep_answer, try_lock
from headgate.store.database import Database, Session

Work = Callable[[Session], Awaitable[StoredAnswer]]

_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode
_encode_headers: Final = msgspec.json.Encoder().encode


class Idempotency:
    """Carries mutations out once and keeps their answers for 24 hours."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def once(self, request: MutationRequest, work: Work) -> Answered:
        """The answer of `work`, which runs in one transaction with the record of its key; or the
        answer that an earlier request of this key got.

        `work` gets the session and may do in it whatever belongs together: the change, in a part of
        its own with `session.transact` where a refusal is to undo it, and the audit entry. Only
        successes and refusals that would be repeated are kept; other answers leave their effects
        and no record. An error that `work` raises undoes everything and passes.

        Raises `RequestInProgress` while another process carries the same key out,
        `RequestKeyReused` when the key was used for something else, and `StoreUnavailable`; after
        that a repetition finds out whether it was done.
        """

        async def run(session: Session) -> Answered:
            await self.lock(session, request)
            known = await self.find(session, request)
            if known is not None:
                return Answered(known, replayed=True)
            answer = await work(session)
            if is_kept(answer.status):
                await self.keep(session, request, answer)
            return Answered(answer)

        return await self._database.transact(run)

    async def lock(self, session: Session, request: MutationRequest) -> None:
        """Holds the key until the end of the transaction. Raises `RequestInProgress`."""
        number = request.lock_number(self._database.settings.schema)
        rows = await session.fetch(try_lock(), {"lock_number": number})
        if not rows[0]["taken"]:
            raise RequestInProgress

    async def find(self, session: Session, request: MutationRequest) -> StoredAnswer | None:
        """The answer that is kept for this request. Raises `RequestKeyReused`."""
        rows = await session.fetch(find_answer(), _key(request))
        if not rows:
            return None
        if rows[0]["request_hash"] != request.hash:
            raise RequestKeyReused
        return StoredAnswer(
            status=rows[0]["status"],
            headers=_decode_headers(rows[0]["headers"]),
            body=rows[0]["body"],
        )

    async def keep(self, session: Session, request: MutationRequest, answer: StoredAnswer) -> None:
        """Keeps the answer for whoever repeats the request."""
        await session.fetch(
            keep_answer(),
            {
                **_key(request),
                "given_request_hash": request.hash,
                "given_status": answer.status,
                "given_headers": _encode_headers(answer.headers).decode(),
                "given_body": answer.body,
            },
        )


def _key(request: MutationRequest) -> Mapping[str, Any]:
    names = ("identity", "method", "route", "key")
    return {f"given_{name}": getattr(request, name) for name in names}
