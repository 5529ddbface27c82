"""How one instance of the control API is to behave."""

import msgspec


class ApiConfig(msgspec.Struct, kw_only=True, frozen=True):
    """`read_only` refuses every mutation, whoever asks. `payloads` false never hands out what jobs
    carry, though it was asked for.
    """

    read_only: bool = False
    payloads: bool = True
