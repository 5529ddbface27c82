"""${message}

Revises ${down_revision or "nothing"}.
"""

import sqlalchemy as sa
from alembic import op
${imports + "\n" if imports else ""}
revision = "${up_revision}"
down_revision = "${down_revision}"

# The oldest revision whose code works with this schema; code that is older refuses to start. While
# the code before this one still works, a fleet can be deployed piece by piece.
minimum_revision = "${down_revision}"

# Jobs run while this does:
# - Every statement here waits 3 seconds for a lock at most; then the whole revision is rolled back
#   and tried again. Keep it short: no rewrite of a table, a constraint first NOT VALID.
# - An index on a table that exists is built concurrently, in a revision of its own that can be
#   repeated, since no transaction takes back what was half built:
#
#       with op.get_context().autocommit_block():
#           op.execute("SET lock_timeout = 0")  # it waits for old transactions, and blocks nobody
#           op.drop_index(
#               "headgate_job_x", "headgate_job", if_exists=True, postgresql_concurrently=True
#           )
#           op.create_index("headgate_job_x", "headgate_job", ["x"], postgresql_concurrently=True)
#           op.execute("RESET lock_timeout")
#
# - A name without a schema gets Headgate's. In a statement of text, say it by
#   sa.DDL("... %(fullname)s ...").against(sa.Table("headgate_job", sa.MetaData())).

compatibility = sa.table(
    "headgate_compatibility",
    sa.column("revision", sa.Text),
    sa.column("minimum_revision", sa.Text),
)


def upgrade() -> None:
    ${upgrades if upgrades else "# Change it."}
    op.bulk_insert(compatibility, [{"revision": revision, "minimum_revision": minimum_revision}])


def downgrade() -> None:
    ${downgrades if downgrades else "# Take it back."}
    op.execute(compatibility.delete().where(compatibility.c.revision == revision))
