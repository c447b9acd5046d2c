"""Run folders of programs other than altgrad-host, as its reports read them: docs/data-frames.md."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Folder:
    """A run folder that is being written. Refuses a folder that is not empty, with FileExistsError.

    config: keys of the run file with dots, and their values. columns: the metrics of all steps, besides `step`.
    """

    def __init__(self, path: str | os.PathLike[str], config: Mapping[str, Any], columns: list[str]) -> None:
        self.path = Path(path)
        if self.path.is_dir() and any(self.path.iterdir()):
            raise FileExistsError(f"the folder {self.path} is not empty")
        self.path.mkdir(parents=True, exist_ok=True)
        self._columns = list(dict.fromkeys(columns))
        self._last: float | None = None
        config = {"run.name": self.path.absolute().name, **config}
        self._name = str(config["run.name"])
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in config.items()]
        (self.path / "config.toml").write_text("".join(lines))
        (self.path / "events.jsonl").touch()
        self._add("metrics.csv", ["step", *self._columns])
        self._add("layers.csv", ["step", "layer", "metric", "value"])
        self._status("running", 0)

    def row(self, step: int, values: Mapping[str, Any]) -> None:
        """Adds the metrics of a step."""
        self._last = values.get("val/loss", self._last)
        self._add("metrics.csv", [step, *(values.get(column) for column in self._columns)])
        self._status("running", step + 1)

    def layer(self, step: int, layer: str, values: Mapping[str, Any]) -> None:
        """Adds the metrics of a layer; those that are None are missing."""
        self._add("layers.csv", *([step, layer, metric, value] for metric, value in values.items() if value is not None))

    def close(self, status: str, steps: int) -> None:
        """Ends the run: "completed" or "interrupted"."""
        self._status(status, steps)

    def _add(self, file: str, *rows: list[Any]) -> None:
        with open(self.path / file, "a") as written:
            written.writelines(",".join(map(_cell, row)) + "\n" for row in rows)

    def _status(self, status: str, steps: int) -> None:
        record = {
            "name": self._name,
            "status": status,
            "steps": steps,
            "final_val_loss": self._last if status == "completed" else None,
            "updated_unix_s": int(time.time()),
        }
        temporary = self.path / ".run.json"
        temporary.write_text(json.dumps(record, indent=2))
        temporary.replace(self.path / "run.json")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return "NaN" if value != value else str(value)
