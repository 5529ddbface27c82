"""Writes `headgate.yaml` from the operations of the control API: `python openapi/generate.py`."""

from pathlib import Path
from typing import Any, Final

import yaml

from headgate.api.health import VERSION
from headgate.api.openapi import build_document
from headgate.api.table import OPERATIONS

TARGET: Final = Path(__file__).with_name("headgate.yaml")


class Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, and nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def represent_text(dumper: Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


Dumper.add_representer(str, represent_text)


def rendered() -> str:
    return yaml.dump(
        build_document(OPERATIONS, VERSION),
        Dumper=Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )


if __name__ == "__main__":
    TARGET.write_text(rendered(), encoding="utf-8")
