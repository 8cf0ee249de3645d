"""Estimating a conversion from the headers of the source, without reading or writing any value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from cfagg.conversion.absent import counted, with_absent
from cfagg.conversion.cluster import task_count
from cfagg.conversion.plan import build_plan
from cfagg.conversion.schedule import schedule
from cfagg.runtime.reports import WrittenReport

if TYPE_CHECKING:
    from cfagg.conversion.plan import Plan
    from cfagg.conversion.request import Request
    from cfagg.conversion.schedule import Schedule

__all__ = ["DryRun", "estimate", "try_out", "try_staged"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DryRun(WrittenReport):
    """The expected result and cost of a conversion.

    Parameters
    ----------
    target : str
        The store that would be written.
    variables : tuple of str
        Paths of its arrays.
    bytes_in : int
        Bytes of values that would be read from the source, uncompressed, counted as often as they are decoded.
    bytes_out : int
        Bytes of all values that would be written, uncompressed; fewer if chunks contain only the fill value, which is
        only known once they are read.
    bytes_between : int
        Bytes of uncompressed intermediate values that would be written for very different chunks, then removed.
    chunks : int
        Maximum number of objects that would be written: chunks, or shards.
    tasks : int
        Number of units of work: slabs, or tasks of a cluster.
    memory_per_worker : int
        Maximum bytes for values in this process, or in each worker of a cluster. The libraries need some 100 MB more.
    workers : int
        Number of threads of this process, or of each worker of a cluster.
    notes : tuple of str
        Information that users of the store should know.
    losses : tuple of Loss
        What the source has and the store would not.
    """

    title: ClassVar[str] = "Plan of a conversion"

    bytes_in: int
    bytes_out: int
    bytes_between: int = 0
    chunks: int
    tasks: int
    memory_per_worker: int
    workers: int

    def __str__(self) -> str:
        from cfagg.display.sizes import count_text, size_text

        between = f", {size_text(self.bytes_between)} on the way" if self.bytes_between else ""
        return (
            f"{self.target} would be written: {count_text(len(self.variables), 'variable')}, "
            f"{size_text(self.bytes_in)} read, {size_text(self.bytes_out)} written in "
            f"{count_text(self.chunks, 'chunk')}{between}; {count_text(self.tasks, 'task')}, "
            f"{size_text(self.memory_per_worker)} of memory for values"
        )

    @property
    def facts(self) -> Sequence[tuple[str, object]]:
        """The facts shown in a notebook, by name."""
        from cfagg.display.sizes import count_text, size_text

        return (
            ("store", self.target),
            ("read", size_text(self.bytes_in)),
            ("written", f"{size_text(self.bytes_out)} in {count_text(self.chunks, 'chunk')}, before compression"),
            ("on the way", size_text(self.bytes_between) if self.bytes_between else None),
            ("tasks", f"{self.tasks:,}"),
            ("memory", f"{size_text(self.memory_per_worker)} for values, in each worker"),
        )


def try_out(request: Request, target: str) -> DryRun:
    """Return the estimate of a conversion whose target may be written."""
    with request.opened() as (source, access):
        plan = build_plan(source, access, request.options, request.threads)
        plan = with_absent(plan, request.options.zarr_format)
        made = schedule(plan.arrays, request.memory, request.workers, None, request.options.zarr_format)
        return estimate(target, plan, made, request.client)


def try_staged(target: str, plan: Plan, request: Request) -> DryRun:
    """Return the estimate of a conversion to a format other than Zarr."""
    return estimate(target, plan, schedule(plan.arrays, request.memory, request.workers, None, 3), request.client)


def estimate(target: str, plan: Plan, made: Schedule, client: Any = None) -> DryRun:
    """Return the estimate for a schedule."""
    return DryRun(
        target=target,
        variables=tuple(a.path for a in plan.arrays),
        bytes_in=made.read,
        bytes_out=sum(counted(a)[1] for a in plan.arrays),
        bytes_between=made.scratch,
        chunks=sum(counted(a)[0] for a in plan.arrays),
        tasks=task_count(made.arrays, made.slabs, cluster=client is not None),
        memory_per_worker=made.memory,
        workers=made.threads,
        notes=plan.notes,
        losses=plan.losses,
    )
