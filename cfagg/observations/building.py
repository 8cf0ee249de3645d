"""Building a store: parts are read into sorted runs, the runs are merged, and chunks are written.

Each of the three steps consists of independent tasks, whose result files appear complete or not at all.  A build that
resumes after being killed repeats only the unfinished tasks.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.durations import format_duration
from cfagg.errors import ConventionError, SourceError
from cfagg.observations.chosen_statistics import Choice
from cfagg.observations.dates import Part, union
from cfagg.observations.frames import META, add_attributes
from cfagg.observations.layouts import DataLayout
from cfagg.observations.merging import (
    Portion,
    RowRange,
    RowTable,
    Run,
    merge_portion,
    plan_merge,
    read_record,
    sort_unique,
    write_record,
)
from cfagg.observations.parts import PartRead, arrange, part_text, read_elsewhere, read_part, recorded
from cfagg.observations.provenance import Base, build_attributes, iso, sources_of
from cfagg.observations.recipe import Recipe
from cfagg.observations.statistics import Accumulator
from cfagg.observations.tasks import Pool
from cfagg.observations.writing import ChunkPlan, ChunkWritten, EntryFile, check_variables, finish_store, write_one

__all__ = ["Budget", "Built", "Work", "build", "write_store"]

type Progress = Callable[[int, int], None]

#: Progress in thousandths after reading, after merging, and in total.
_READ, _MERGED, _ALL = 600, 700, 1000


@dataclass(frozen=True)
class Budget:
    """The memory of a build."""

    memory: int
    workers: int

    @property
    def run(self) -> int:
        """Bytes of a run; its sorted copy and its frame are in memory at the same time."""
        return int(max(1 << 16, min(self.memory // (5 * self.workers), 256 << 20)))

    def portion(self, columns: int) -> int:
        """Return the number of rows to merge at once, which are copied."""
        return int(max(1024, self.memory // (3 * self.workers * 4 * columns)))

    def writers(self, layout: DataLayout) -> int:
        """Return the number of chunks to write at once; each is in memory as rows, padded, and compressed."""
        rows = max(1, min(layout.chunk, layout.rows))
        return int(max(1, min(self.workers, self.memory // (3 * 4 * layout.columns * rows))))


@dataclass(frozen=True)
class Work:
    """The resources of a build; runs and records are kept in `folder`."""

    folder: Path
    store: Path
    budget: Budget
    client: Any = None
    #: Called with the progress in thousandths.
    tell: Progress = lambda _done, _all: None


@dataclass(frozen=True)
class Built:
    """The result of a build."""

    layout: DataLayout
    variables: tuple[str, ...]
    #: Number of rows that were read, including duplicates.
    read: int
    #: Parts that an earlier build had read.
    resumed: int
    nbytes: int
    #: First and last date, in seconds since 1970.
    dates: tuple[int, int]
    #: Variables with integers that float32 had to round.
    rounded: tuple[str, ...]
    notes: tuple[str, ...] = ()


def build(recipe: Recipe, parts: Sequence[Part], work: Work, base: Base | None) -> Built:
    """Build a store from the parts of a recipe and, if it appends, the existing store."""
    recipe.prepare(work.folder)
    with Pool(work.budget.workers, work.client) as pool:
        found, resumed = _read_parts(recipe, parts, work, pool)
        variables = _variables(found, parts, base)
        other = [p for p in found if p.runs and p.variables != variables]
        arranged = {p.number: p for p in pool.run((arrange, (p, variables, work.folder)) for p in other)}
        found = [arranged.get(p.number, p) for p in found]
        table, stay = _order([r for p in found for r in p.runs], base, len(META) + len(variables), work, pool)
        work.tell(_MERGED, _ALL)
        output = recipe.output
        wanted = output.rows_per_chunk
        if wanted is None and output.format == "zarr2":
            wanted = max(1, round(output.bytes_per_chunk / (4 * table.columns)))
        layout = DataLayout.choose(output.format, table.rows, table.columns, wanted)
        dates = table.epoch(0), table.epoch(table.rows - 1)
        choice = _choice(recipe)
        chosen = choice.rows(table.rows, *dates, table.find)
        written = _write_chunks(ChunkPlan(work.store, layout, table, chosen, _former(base, layout, stay)), work)
        attributes = _attributes(recipe, parts, base, found, variables, written.checksums)
        results = written.statistics.result()
        attributes |= _statistics_attributes(results, variables, chosen, table)
        covered = _covered(parts, base)
        results |= pool.call(_tendencies, recipe, choice, table, written.entries, chosen, covered)
        pool.call(
            finish_store, work.store, layout, variables, written.entries, output.date_indexing, results, attributes
        )
    rounded = tuple(sorted({v for p in found for v in p.rounded}))
    notes = _notes(recipe, chosen, table)
    return Built(layout, variables, sum(p.rows for p in found), resumed, written.nbytes, dates, rounded, notes)


def write_store(
    runs: Sequence[Run],
    variables: Sequence[str],
    layout: tuple[str, int | None],
    date_indexing: str,
    attributes: Mapping[str, Any],
    work: Work,
) -> None:
    """Write the rows of sorted runs as a store; `layout` is its format and, if given, the rows of a chunk."""
    columns = len(META) + len(variables)
    with Pool(work.budget.workers) as pool:
        table, _ = _order(runs, None, columns, work, pool)
        chosen = DataLayout.choose(layout[0], table.rows, columns, layout[1])
        written = _write_chunks(ChunkPlan(work.store, chosen, table, (0, table.rows)), work)
        results = written.statistics.result()
        pool.call(finish_store, work.store, chosen, variables, written.entries, date_indexing, results, attributes)


def _notes(recipe: Recipe, chosen: tuple[int, int], table: RowTable) -> tuple[str, ...]:
    """Return notes for the user about the rows for statistics, if they are none or the recipe left them open."""
    if chosen[0] >= chosen[1]:
        extent = f"{iso(table.epoch(0))} to {iso(table.epoch(table.rows - 1))}"
        note = f"all statistics are missing: the recipe computes them of {_choice(recipe)}, rows are from {extent}"
        return (f"{note}; change statistics in the recipe, or give statistics= when the store is opened",)
    if not recipe.published_statistics or chosen == (0, table.rows):
        return ()
    end = iso(table.epoch(chosen[1] - 1))
    note = (
        f"the recipe does not choose the rows for statistics, so rows up to {end} were used, as in the published "
        "software; for all rows, add statistics: {records: all}"
    )
    return (note,)


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def _read_parts(recipe: Recipe, parts: Sequence[Part], work: Work, pool: Pool) -> tuple[list[PartRead], int]:
    """Read all parts not read before; return all in order, and the number read before."""
    found = {k: p for k in range(len(parts)) if (p := recorded(work.folder, k)) is not None}
    resumed = len(found)
    todo = [k for k in range(len(parts)) if k not in found]
    if todo:
        # Results from parts that are read again must be computed again.
        for path in work.folder.glob("portion-*"):
            path.unlink()
        shutil.rmtree(work.store)
        work.store.mkdir()
    shared = pool.share(recipe) if todo else recipe
    work.tell(_READ * len(found) // max(1, len(parts)), _ALL)
    read = read_elsewhere if pool.remote else read_part
    for part in pool.run((read, (shared, k, parts[k], work.folder, work.budget.run)) for k in todo):
        found[part.number] = part
        work.tell(_READ * len(found) // len(parts), _ALL)
    return [found[k] for k in sorted(found)], resumed


def _variables(found: Sequence[PartRead], parts: Sequence[Part], base: Base | None) -> tuple[str, ...]:
    """Return the variables of the store, which all parts must have."""
    filled = [p for p in found if p.rows]
    if not filled:
        if base is not None:
            return base.store.variables
        raise SourceError(
            "the sources of the recipe have no observations in its dates, and a store cannot be empty; check that "
            "dates and sources match"
        )
    variables = filled[0].variables if base is None else base.store.variables
    for part in filled:
        lack, more = sorted({*variables} - {*part.variables}), sorted({*part.variables} - {*variables})
        if lack or more:
            said = [f"lacks {', '.join(lack)}"] * bool(lack) + [f"has {', '.join(more)} too"] * bool(more)
            other = "the store" if base is not None else f"part {filled[0].number}"
            raise ConventionError(
                f"{part_text(part.number, parts[part.number])} {' and '.join(said)}, unlike {other} "
                f"({', '.join(variables)}); give all parts the same columns, with the filter select"
            )
    return check_variables(variables)


# ---------------------------------------------------------------------------------------------------------------------
# Order


def _order(runs: Sequence[Run], base: Base | None, columns: int, work: Work, pool: Pool) -> tuple[RowTable, int]:
    """Return all rows in order, and the number of leading rows that are those of the existing store."""
    most = work.budget.portion(columns)
    ranges: list[RowRange] = []
    stay = 0
    if base is not None:
        stay = len(base.source)
        if runs:
            stay = base.rows_before(sort_unique(np.concatenate([r.read(0, 1) for r in runs]))[:1])
        if stay:
            ranges.append(RowRange(base.source, 0, stay))
        runs = [*runs, *base.spill(stay, work.folder, most)]
    portions = plan_merge(runs, most)
    tasks = ((_merged, (work.folder, k, p)) for k, p in enumerate(portions) if len(p.ranges) > 1)
    done = pool.run(tasks, ordered=True)
    for portion in portions:
        if len(portion.ranges) == 1:
            ranges.append(portion.ranges[0])
        else:
            run = next(done)
            ranges.append(RowRange(run, 0, run.rows))
    return RowTable.of(ranges, columns), stay


def _merged(folder: Path, number: int, portion: Portion) -> Run:
    """Merge a portion, unless that was done before."""
    record = folder / f"portion-{number:06d}.json"
    known = [[str(p.source.path.name), p.start, p.stop] for p in portion.ranges if isinstance(p.source, Run)]
    found = read_record(record)
    if found is not None and found.get("ranges") == known:
        run = Run.from_json(folder, found["run"])
        if run.whole():
            return run
    run = merge_portion(portion, folder / f"portion-{number:06d}")
    write_record(record, {"ranges": known, "run": run.to_json()})
    return run


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def _former(base: Base | None, layout: DataLayout, stay: int) -> tuple[Path, int] | None:
    """Return the existing store whose first rows stay, if its chunks have the same shape as the new ones."""
    if base is None:
        return None
    array = base.store.data.array
    same = array.held[0] == layout.chunk and array.chunk[0] == layout.inner
    return (base.path, stay) if same else None


@dataclass
class _Written:
    """Information on the chunks that were written."""

    statistics: Accumulator
    entries: EntryFile
    checksums: list[int] = field(default_factory=list)
    nbytes: int = 0


def _write_chunks(plan: ChunkPlan, work: Work) -> _Written:
    """Write all chunks."""
    layout = plan.layout
    written = _Written(Accumulator(layout.columns - len(META)), EntryFile(work.folder / "entries"))
    with Pool(work.budget.writers(layout), work.client) as pool:
        shared = pool.share(plan)
        chunks: Iterator[ChunkWritten] = pool.run(((write_one, (shared, k)) for k in range(layout.count)), ordered=True)
        for chunk in chunks:
            written.statistics.merge(chunk.statistics)
            written.entries.put(*chunk.entries)
            written.checksums.append(chunk.checksum)
            written.nbytes += chunk.nbytes
            work.tell(_MERGED + (_ALL - 1 - _MERGED) * len(written.checksums) // layout.count, _ALL)
    written.entries.close()
    return written


# ---------------------------------------------------------------------------------------------------------------------
# Statistics and attributes


def _choice(recipe: Recipe) -> Choice:
    """Return the choice of rows for the statistics."""
    wanted = recipe.statistics
    if wanted.records is not None:
        return Choice("records", wanted.records)
    if wanted.period is not None:
        return Choice("period", wanted.period)
    if recipe.published_statistics:
        return Choice("published")
    if wanted.start is None and wanted.end is None:
        return Choice()
    ends = [None if d is None else int(np.datetime64(d, "s").astype(np.int64)) for d in (wanted.start, wanted.end)]
    return Choice("dates", start=ends[0], end=ends[1])


def _covered(parts: Sequence[Part], base: Base | None) -> tuple[int, int]:
    """Return the first and last second requested from the sources, for this build and for the existing store."""
    periods = [*parts, *(base.periods if base is not None else ())]
    ends = np.array([min(p[0] for p in periods), max(p[1] for p in periods)], "datetime64[s]").astype(np.int64)
    return int(ends[0]), int(ends[1]) - 1


def _tendencies(
    recipe: Recipe,
    choice: Choice,
    table: RowTable,
    entries: EntryFile,
    chosen: tuple[int, int],
    covered: tuple[int, int],
) -> dict[str, Any]:
    """Return statistics of tendencies, by the names of their arrays."""
    wanted = recipe.statistics
    if not wanted.tendencies or chosen[0] >= chosen[1]:
        return {}
    from cfagg.observations.statistics import tendencies, tendency_grid

    columns = np.memmap(entries.path, np.int64, "r", shape=(entries.count, 3))

    def find(lo: int, hi: int) -> tuple[int, int]:
        places = np.searchsorted(columns[:, 0], [lo, hi])
        a, b = (int(columns[p, 1]) if p < entries.count else table.rows for p in places.tolist())
        return max(a, chosen[0]), min(b, chosen[1])

    # The whole requested time is covered, unless the choice ends within the rows.
    first, last = covered
    if choice.over == "dates":
        first, last = first if choice.start is None else choice.start, last if choice.end is None else choice.end
    elif choice.over != "all":
        last = table.epoch(chosen[1] - 1)
    grid = tendency_grid(wanted.grid, wanted.tendencies)
    found = tendencies(grid, table.columns - len(META), first, last, find, table.read)
    return {
        f"statistics_tendencies_{format_duration(Fraction(step))}_{name}": values
        for step, results in found.items()
        for name, values in results.items()
    }


def _statistics_attributes(
    results: dict[str, npt.NDArray[Any]], variables: Sequence[str], chosen: tuple[int, int], table: RowTable
) -> dict[str, Any]:
    """Return the attributes that describe the statistics."""
    a, b = chosen
    if a >= b:
        return {"statistics_start_date": None, "statistics_end_date": None, "statistics_rows": [a, a]}
    constant = (results["minimum"] == results["maximum"]) & (results["nan_count"] == 0)
    constant |= results["nan_count"] == b - a
    return {
        "constant_fields": sorted(v for v, same in zip(variables, constant.tolist(), strict=True) if same),
        "statistics_start_date": iso(table.epoch(a)),
        "statistics_end_date": iso(table.epoch(b - 1)),
        # A choice by number of records may end within a second.
        "statistics_rows": [a, b],
    }


def _attributes(
    recipe: Recipe,
    parts: Sequence[Part],
    base: Base | None,
    found: Sequence[PartRead],
    variables: Sequence[str],
    checksums: Sequence[int],
) -> dict[str, Any]:
    """Return the attributes of the root that a build adds."""
    sources = sources_of(recipe)
    metadata: dict[str, dict[str, Any]] = {}
    periods = list(parts)
    if base is not None:
        periods += base.periods
        metadata |= {k: dict(v) for k, v in base.store.attributes.variables_metadata.items()}
        recorded = base.store.attributes.all["cfagg"].get("sources", [])
        sources += [s for s in recorded if s not in sources]
        sources.sort(key=lambda s: sorted(s.items()))
    for part in found:
        given = {k: v for k, v in part.attributes.items() if k in variables}
        add_attributes(metadata, given, part_text(part.number, parts[part.number]))
    return build_attributes(recipe, union(periods), sources, metadata, checksums, variables)
