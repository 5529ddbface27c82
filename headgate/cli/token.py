"""`headgate token`: who may use the control API."""

from typing import Annotated

import typer

from headgate.api.tokens import new_token, token_line
from headgate.cli.stores import with_store
from headgate.model.access import AccessToken, hash_token, parse_role
from headgate.model.errors import InvalidRequest

application = typer.Typer(
    help="Make, list and revoke access tokens of the control API.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Identity = Annotated[str, typer.Argument(help="Who it is for; it stands in the audit trail.")]


@application.command()
def create(
    identity: _Identity,
    role: Annotated[str, typer.Argument(help="viewer, producer, operator or admin.")],
    keep: Annotated[
        bool,
        typer.Option(
            "--store", help="Keep it in the database instead of printing a line for a file."
        ),
    ] = False,
) -> None:
    """Make a token. It is printed once; what is kept is its hash."""
    granted = parse_role(role)
    if not identity or identity.split() != [identity] or ";" in identity:
        raise InvalidRequest("an identity is one word")
    token = new_token()
    token_hash = hash_token(token.encode())
    if keep:
        with_store(lambda store: store.access_tokens.add(token_hash, identity, granted))
        typer.echo(token)
        return
    typer.echo(token)
    typer.echo(token_line(token_hash, identity, granted))


@application.command("list")
def list_tokens() -> None:
    """List the tokens of the database."""
    for token in with_store(lambda store: store.access_tokens.all()):
        typer.echo(_described(token))


@application.command()
def revoke(identity: _Identity) -> None:
    """Revoke every token that an identity has in the database. It takes effect within seconds."""
    count = with_store(lambda store: store.access_tokens.revoke(identity))
    typer.echo(f"revoked {count}")


def _described(token: AccessToken) -> str:
    state = "valid" if token.revoked_at_ms is None else "revoked"
    return f"{token.token_hash.hex()[:12]} {token.identity} {token.role} {state}"
