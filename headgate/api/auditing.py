"""What of a mutation is written down in the audit trail."""

from headgate.api.requests import ApiRequest
from headgate.model.audit import AuditRecord


def audit_record(request: ApiRequest, status: int) -> AuditRecord:
    """The entry for a mutation that was answered with `status`."""
    return AuditRecord(
        identity=request.caller.subject,
        role=request.caller.role,
        method=request.operation.method,
        route=request.operation.path,
        target=request.target,
        idempotency_key=request.idempotency_key,
        status=status,
    )
