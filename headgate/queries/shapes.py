"""Small forms that many statements need."""

from typing import Any

from sqlalchemy import CTE, BigInteger, ColumnElement, all_, any_, bindparam, cast, func
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.queries.literals import number
from headgate.tables import job


def materialized(statement: Any, name: str) -> CTE:
    """A part of a statement that is evaluated once."""
    made: CTE = statement.cte(name).prefix_with("MATERIALIZED", dialect="postgresql")
    return made


def total(amount: ColumnElement[int], *where: ColumnElement[bool]) -> ColumnElement[int]:
    """The sum of whole numbers as a whole number, 0 for none; PostgreSQL makes it a decimal."""
    summed = func.sum(amount)
    return func.coalesce(
        cast(summed.filter(*where) if where else summed, BigInteger), number(0), type_=BigInteger
    )


def named_rows() -> ColumnElement[bool]:
    """Whether a job is one of `row_id_array`."""
    return job.c.id == any_(bindparam("row_id_array", type_=ARRAY(BigInteger)))


def not_passed_over() -> ColumnElement[bool]:
    """Whether a job is none of `passed_over`."""
    return job.c.id != all_(bindparam("passed_over", type_=ARRAY(BigInteger)))


def page_size() -> Any:
    return bindparam("page_size", type_=BigInteger)


def page_offset() -> Any:
    return bindparam("page_offset", type_=BigInteger)
