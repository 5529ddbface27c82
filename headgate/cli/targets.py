"""What `module:attribute` on a command line names."""

import importlib
import os
import sys
from typing import Any

from headgate.model.errors import InvalidRequest


def load_target(target: str) -> Any:
    """The object that `module:attribute` names; the current directory is importable.

    Raises `InvalidRequest` with what is wrong with the name. An error inside the module passes: its
    traceback is what its author needs.
    """
    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or not attribute:
        raise InvalidRequest(f"`{target}` is not of the form module:attribute, as in shop.jobs:app")
    if (directory := os.getcwd()) not in sys.path:
        sys.path.insert(0, directory)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # The module itself, or a package it is in; anything else is missing inside of it.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InvalidRequest(f"there is no module {error.name}") from None
    found = getattr(module, attribute, None)
    if found is None:
        raise InvalidRequest(f"module {module_name} has no {attribute}")
    return found
