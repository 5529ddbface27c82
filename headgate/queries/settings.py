"""Session settings as a statement, for connections on which a session is not ours."""

from functools import cache

from sqlalchemy import Select, func, literal, select, true


@cache
def local_settings(settings: tuple[tuple[str, str], ...]) -> Select[tuple[str, ...]]:
    """Applies each setting until the end of the transaction."""
    return select(
        *(func.set_config(literal(name), literal(value), true()) for name, value in settings)
    )
