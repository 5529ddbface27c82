"""A task: a kind of job, the handler that runs it, and how its jobs are made."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from msgspec import structs

from headgate.client.errors import RegistrationError
from headgate.client.failures import IsFailure, RetryPolicy
from headgate.client.options import EnqueueOptions, JobOptions, envelope_fields
from headgate.client.payloads import codec_of
from headgate.client.sealing import PayloadCipher, SealedJob
from headgate.client.signature import Signature, read_signature
from headgate.client.upcasts import Upcast, Upcasts
from headgate.model.access import Identity
from headgate.model.envelope import DEFAULT_QUEUE, REPLACE_PAYLOAD, Envelope, prepare
from headgate.model.errors import HeadgateError, InvalidRequest
from headgate.model.identity import fingerprint, new_job_id
from headgate.model.job import Claim, Enqueued
from headgate.model.kinds import check_kind
from headgate.model.limits import MAX_INT32

if TYPE_CHECKING:
    from headgate.client.application import Headgate
    from headgate.client.completion import Completion
    from headgate.store.foreign import AsyncConnectionLike, SyncConnection

Payload = TypeVar("Payload")
Invoke = Callable[..., Any]
StepMigration = Callable[[list[str]], list[str]]


class Execution(Enum):
    """Where a handler runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"
    BATCH = "batch"
    COMMAND = "command"


class Task(Generic[Payload]):
    """One kind of job of an application. Made by `Headgate.task`, not by hand.

    Calling it calls the handler, as if it had never been decorated.
    """

    def __init__(
        self,
        app: "Headgate",
        kind: str,
        handler: Callable[..., Any],
        *,
        aliases: Sequence[str],
        version: int,
        options: JobOptions,
        encryption: PayloadCipher | None = None,
        is_failure: IsFailure | None = None,
        retry_policy: RetryPolicy | None = None,
        process: bool = False,
    ) -> None:
        """Raises `RegistrationError` for a kind, alias, option or handler that cannot be used."""
        self._app = app
        self.kind = kind
        self.aliases = tuple(aliases)
        self.version = version
        self.handler = handler
        self.__doc__ = handler.__doc__
        self.__name__ = getattr(handler, "__name__", kind)
        self.signature = self._read(handler)
        self.is_failure = is_failure
        self.retry_policy = retry_policy
        self.execution = self._execution(process)
        self.invoke: Invoke = _invocation(handler, self.signature)
        self._codec = codec_of(self.signature.payload_type)
        self._encryption = encryption
        self._upcasts = Upcasts(kind, version, self._codec)
        self._step_migrations: dict[int, StepMigration] = {}
        if not 1 <= version <= MAX_INT32:
            raise RegistrationError(f"task {kind}: version must be 1-{MAX_INT32}")
        try:
            for name in self.kinds:
                check_kind(name)
            self._defaults = envelope_fields(options)
            # Judged once here, so that a mistake in an option shows when the module is imported.
            prepare([Envelope(kind=kind, schema_version=version, **self._defaults)])
        except (HeadgateError, TypeError) as error:
            raise RegistrationError(f"task {kind}: {error}") from error

    def _read(self, handler: Callable[..., Any]) -> Signature:
        return read_signature(handler)

    def _execution(self, process: bool) -> Execution:
        if not process:
            return Execution.LOOP if self.signature.is_async else Execution.THREAD
        if self.signature.is_async or self.signature.dependencies:
            raise RegistrationError(f"task {self.kind}: a process runs a `def` without others")
        module, name = self.handler.__module__, self.handler.__qualname__
        if module == "__main__" or "<locals>" in name:
            raise RegistrationError(
                f"task {self.kind}: a process finds its handler by name; define it in a module"
            )
        return Execution.PROCESS

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind this task answers: its own first, then the aliases."""
        return (self.kind, *self.aliases)

    @property
    def app(self) -> "Headgate":
        """The application that it belongs to."""
        return self._app

    @property
    def queue(self) -> str:
        """Where its jobs go unless an enqueue says otherwise."""
        return str(self._defaults.get("queue", DEFAULT_QUEUE))

    @property
    def takes_payload(self) -> bool:
        return self.signature.takes_payload

    @property
    def encrypted(self) -> bool:
        """Whether its payloads are sealed, each for its own job."""
        return self._encryption is not None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.kind}>"

    def upcast(self, version: int, *, to: int | None = None) -> Callable[[Upcast], Upcast]:
        """Registers how payload bytes of an older `version` become a payload of today, or its
        fields as a dict.

        With `to` it is a step to that version, from where another one leads on: what it returns is
        turned to JSON for that, unless it is bytes. Upcasts run on every attempt; what is stored
        does not change. Raises `RegistrationError` for a version that has one, and for a step that
        does not lead upwards; a worker also refuses a chain that breaks off.
        """
        target = self.version if to is None else to
        self._upcasts.check(version, target)

        def register(upcast: Upcast) -> Upcast:
            self._upcasts.add(version, target, upcast)
            return upcast

        return register

    def migrate_steps(self, version: int) -> Callable[[StepMigration], StepMigration]:
        """Registers what the steps that an older `version` has completed are called today.

        The function gets their names in order and returns those that a handler of today passes
        over. Without one they must be the same.
        """
        known = self._step_migrations
        if not 1 <= version < self.version or version in known:
            raise RegistrationError(
                f"task {self.kind}: migration of steps from version {version} is not below"
                f" {self.version} or exists already"
            )

        def register(migration: StepMigration) -> StepMigration:
            known[version] = migration
            return migration

        return register

    def migrate(self, version: int, completed: list[str]) -> list[str] | None:
        """The completed steps of `version` as they are called today; None when nobody knows."""
        migration = self._step_migrations.get(version)
        return None if migration is None else migration(completed)

    def job(
        self, payload: Payload | Mapping[str, Any] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Envelope:
        """A job that is not enqueued yet, for `Headgate.enqueue_many`.

        `payload` is what the handler takes, or its fields as a mapping; `options` are those of
        `EnqueueOptions`. Raises `InvalidRequest` for a payload that the handler could not decode
        and for contradictory options.
        """
        encoded = self._codec.encode(self.kind, payload)
        fields = {**self._defaults, **envelope_fields(options)} if options else self._defaults
        if fields:
            job = Envelope(kind=self.kind, schema_version=self.version, payload=encoded, **fields)
        else:
            # What most jobs are; a call with keywords from a dict takes twice as long.
            job = Envelope(kind=self.kind, schema_version=self.version, payload=encoded)
        return job if self._encryption is None else _sealed(job, self._encryption)

    async def enqueue(
        self,
        payload: Payload | Mapping[str, Any] | None = None,
        *,
        request_key: str | None = None,
        connection: "AsyncConnectionLike | None" = None,
        identity: Identity | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """Enqueues one job. A repetition of `request_key` answers with the job it made at first.

        With a `connection` it is there when the caller's transaction is committed. Raises what
        `job` and `Headgate.enqueue` raise.
        """
        return await self._app.enqueue(
            self.job(payload, **options),
            request_key=request_key,
            connection=connection,
            identity=identity,
        )

    def payload_of(self, claim: Claim) -> Any:
        """The payload of a claimed job. Raises `UndecodablePayload`."""
        encoded = claim.payload
        if self._encryption is not None:
            job = SealedJob(claim.job_id, claim.kind, claim.schema_version)
            encoded = self._encryption.open(encoded, job)
        if claim.schema_version == self.version:
            return self._codec.decode(encoded)
        return self.decode(encoded, claim.schema_version)

    async def enqueue_and_wait(
        self,
        payload: Payload | Mapping[str, Any] | None = None,
        *,
        wait_ms: int = 30_000,
        identity: Identity | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> "Completion":
        """Enqueues one job and waits up to `wait_ms` for its end, which another process brings.

        Raises what `job` and `Headgate.enqueue_and_wait` raise.
        """
        return await self._app.enqueue_and_wait(
            self.job(payload, **options), wait_ms=wait_ms, identity=identity
        )

    def enqueue_blocking(
        self,
        payload: Payload | Mapping[str, Any] | None = None,
        *,
        connection: "SyncConnection | None" = None,
        identity: Identity | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """`enqueue` for code that blocks; see `Headgate.enqueue_blocking`."""
        job = self.job(payload, **options)
        (enqueued,) = self._app.enqueue_blocking([job], connection=connection, identity=identity)
        return enqueued

    def decode(self, encoded: bytes, version: int) -> Any:
        """The payload in stored bytes. Raises `UndecodablePayload`."""
        if version == self.version:
            return self._codec.decode(encoded)
        return self._upcasts.payload(encoded, version)

    def check_upcasts(self) -> None:
        """Raises `RegistrationError` for an upcast whose chain breaks off."""
        self._upcasts.check_complete()


def _sealed(job: Envelope, encryption: PayloadCipher) -> Envelope:
    """The job with its payload sealed; what tells it apart stays that of the plain one.

    Raises `InvalidRequest` when the payload might end up in another job, where nothing opens it.
    """
    if job.unique_replace & REPLACE_PAYLOAD or job.unique_debounce_ms:
        raise InvalidRequest(f"payload of {job.kind} is encrypted and cannot replace another one")
    job_id = job.id or new_job_id()
    sealed = encryption.seal(job.payload, SealedJob(job_id, job.kind, job.schema_version))
    content = job.fingerprint or fingerprint(job.kind, job.payload)
    return structs.replace(job, id=job_id, payload=sealed, fingerprint=content)


def _invocation(handler: Callable[..., Any], signature: Signature) -> Invoke:
    """The handler behind one shape of call, chosen here and not per attempt."""
    if signature.takes_context and signature.takes_payload:
        return handler
    if not signature.dependencies:
        if signature.takes_context:
            return lambda context, payload: handler(context)
        if signature.takes_payload:
            return lambda context, payload: handler(payload)
        return lambda context, payload: handler()
    if signature.takes_context:
        return lambda context, payload, **values: handler(context, **values)
    if signature.takes_payload:
        return lambda context, payload, **values: handler(payload, **values)
    return lambda context, payload, **values: handler(**values)
