"""Settings and types of a session as statements, for connections whose session is not ours."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Double,
    Integer,
    LargeBinary,
    Select,
    bindparam,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY


@cache
def local_settings(settings: tuple[tuple[str, str], ...]) -> Select[tuple[str, ...]]:
    """Applies each setting until the end of the transaction."""
    return select(
        *(func.set_config(literal(name), literal(value), true()) for name, value in settings)
    )


@cache
def array_types() -> Select[Any]:
    """Has a parameter of each array type that our statements have and the driver must look up."""
    kinds = (BigInteger, Boolean, Double, Integer, LargeBinary)
    return select(*(bindparam(kind.__name__, type_=ARRAY(kind)) for kind in kinds))
