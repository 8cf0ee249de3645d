"""What became of each mutant, kept in a file as it comes, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

from tests.mutation.changes import Mutant


class Log:
    """One line of JSON for each mutant that was tried; of several lines for one mutant the last holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[str, str] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                self.results[entry["key"]] = entry["result"]

    def add(self, mutant: Mutant, result: str) -> None:
        """Note a result."""
        self.results[mutant.key] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({"result": result, "mutant": str(mutant), "key": mutant.key}) + "\n")
