"""Run folders as data frames, finished or not."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _core, _read


@dataclass(frozen=True)
class Run:
    """One run. Frames are read from its files when they are asked for, up to the last whole row. Damaged rows are left out; `notes`
    counts them."""

    name: str
    path: Path
    state: str
    """completed, running, interrupted, failed, ..."""
    steps: int | None
    seed: str | None
    format: str
    loss: float | None
    """The last held-out loss, nats per token; None of a failed run."""
    notes: list[str] = field(repr=False)
    _files: dict[str, str] = field(repr=False)
    _frames: str = field(repr=False)

    @property
    def metrics(self) -> Any:
        """A row per step: `step`, then a column per metric."""
        return _read.csv_file(self._files["metrics"], self._frames, ("step",))

    @property
    def layers(self) -> Any:
        """A row per value: `step`, `layer`, `metric`, `value`. Runs of earlier versions: `step`, `layer`, then a column per
        metric."""
        names = ("step", "layer", "metric", "value")
        return _read.csv_file(self._files["layers"], self._frames, names, ("layer", "metric"))

    @property
    def timings(self) -> Any:
        """A row per step: `step`, then times and rates."""
        return _read.csv_file(self._files["timings"], self._frames, ("step",))

    @property
    def histograms(self) -> Any:
        """A row per distribution and step: `step`, `layer`, `name`, `edges`, `counts`, the last two as lists of numbers. In runs
        of earlier versions `name` ends in the layer."""
        return _read.histograms(self._files["histograms"], self._frames)

    @property
    def events(self) -> Any:
        """A row per event: `step`, `level`, `kind`, `text`, and `place` and `value` where there is one."""
        return _read.events(self._files["events"], self._frames)


class Runs:
    """Runs in the order of their names: `runs[0]`, `runs[1:3]` (a list), `runs["name"]`, iteration. Their paths are absolute."""

    def __init__(self, paths: list[str], frames: str) -> None:
        found = json.loads(_core.find_runs(paths))
        self._paths, self._frames = paths, frames
        self.left_out: list[dict[str, str]] = found["left_out"]
        """Paths that are no readable runs, with the reason."""
        self._runs = []
        for run in found["runs"]:
            files = run.pop("files")
            path = Path(run.pop("path"))
            self._runs.append(Run(path=path, _files=files, _frames=frames, **run))

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            return self._runs[which]
        if not isinstance(which, str):
            return self._runs[operator.index(which)]
        found = [run for run in self if run.name == which]
        if not found:
            raise KeyError(f"no run is called {which!r}; there are: {', '.join(run.name for run in self)}")
        if len(found) > 1:
            raise KeyError(f"{len(found)} runs are called {which!r}: {', '.join(str(run.path) for run in found)}")
        return found[0]

    def __repr__(self) -> str:
        return f"<altgrad.Runs: {', '.join(run.name for run in self)}>"

    def table(self) -> Any:
        """A row per run: name, state, steps, seed, format, loss, path."""
        names = ("name", "state", "steps", "seed", "format", "loss", "path")
        rows = [{name: getattr(run, name) for name in names} | {"path": str(run.path)} for run in self]
        return _read.frame_of(rows, names, self._frames)

    def metrics(self) -> Any:
        """The metrics of all runs, one below the other, with the name of the run in the column `run`. If two runs have one name,
        the column `path` has their folders."""
        has_paths = len({run.name for run in self}) < len(self)
        parts = [_read.frame_of([], ("step", "run"), self._frames)]
        for run in self:
            about = {"run": run.name} | ({"path": str(run.path)} if has_paths else {})
            if self._frames == "pandas":
                parts.append(run.metrics.assign(**about))
                continue
            import polars

            parts.append(run.metrics.with_columns(polars.lit(text).alias(name) for name, text in about.items()))
        return _read.concat(parts, self._frames)

    def compare(
        self, *, baseline: str | None = None, margin: float | None = None, all_pairs: bool = False
    ) -> Any:
        """The comparison of `altgrad-host compare`: a row per configuration with its losses and the differences from its
        baseline, paired by seed (`difference_mean`, `difference_half_width` of the 95 % interval, `p_holm`).
        Baseline and margin are those of the sweep, unless they are given. The folders are read again. `remarks` has the sentences.

        Raises ValueError for an unknown baseline or an impossible margin.
        """
        compared = json.loads(_core.compare_runs(self._paths, baseline, margin, all_pairs))
        return _read.frame_of([_flat(row) for row in compared["rows"]], _COMPARED, self._frames)

    def remarks(
        self, *, baseline: str | None = None, margin: float | None = None, all_pairs: bool = False
    ) -> list[str]:
        """The sentences below the table of `altgrad-host compare`: which differences are significant, and notes, such as that the
        baseline of the sweep is not among the runs. Arguments and errors are those of `compare`.
        """
        compared = json.loads(_core.compare_runs(self._paths, baseline, margin, all_pairs))
        return [*compared["ranking"], *compared["notes"]]

    def differences(self, *, baseline: str | None = None) -> Any:
        """The differences that `compare` summarizes, a row per configuration and seed: `label`, `baseline`, `seed`, `step`, `loss`,
        `baseline_loss` and `difference`, both losses being held-out losses at `step`. The folders are read again.

        Raises ValueError for an unknown baseline.
        """
        compared = json.loads(_core.compare_runs(self._paths, baseline))
        rows = []
        for row in compared["rows"]:
            for pair in row["pairs"]:
                difference = pair["loss"] - pair["baseline_loss"]
                rows.append({"label": row["label"], "baseline": row["baseline"], **pair, "difference": difference})
        names = ("label", "baseline", "seed", "step", "loss", "baseline_loss", "difference")
        return _read.frame_of([{name: row[name] for name in names} for row in rows], names, self._frames)


# Columns of a comparison, some of which may have no value.
_COMPARED = ("label", "loss_mean", "baseline", "difference_mean", "difference_half_width", "p_holm", "verdict")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the comparison without nested values."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("loss", "difference"):
            sample = value or {}
            flat |= {f"{name}_{part}": sample.get(part) for part in ("n", "mean", "sd", "half_width")}
        elif name == "seeds":
            flat["seeds"], flat["seeds_started"] = value
        elif name in ("steps", "compared_at", "ratio_interval"):
            flat[f"{name}_first"], flat[f"{name}_last"] = value or [None, None]
        elif name != "pairs":
            flat[name] = value
    return flat


def runs(path: str | os.PathLike[str] | list[Any], *, frames: str = "pandas") -> Runs:
    """The runs of a folder, of a sweep, or of a list of those. `frames` is "pandas" or "polars".

    Runs that are still training are read up to their last whole row. What is no run is listed in `left_out`, and so is a run whose
    path is not valid UTF-8.

    Raises FileNotFoundError if a path does not exist, and ValueError for another kind of frames.
    """
    if frames not in ("pandas", "polars"):
        raise ValueError(f"frames must be 'pandas' or 'polars', found {frames!r}")
    # Files are read later, perhaps from another working directory.
    paths = [os.path.abspath(one) for one in (path if isinstance(path, (list, tuple)) else [path])]
    for one in paths:
        if not os.path.exists(one):
            raise FileNotFoundError(one)
    return Runs(paths, frames)
