"""Runs of every writer with a fault at some system call, or a power loss at some moment, and what is found afterwards.

Run as a program: ``python -m tests.durability.faults FOLDER [--kills N] [--errors N] [--losses N] [WRITER …]``.  It
prints a line for each writer, and every find; its status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.durability import powerloss, tracing
from tests.durability.writers import WRITERS, Writer

#: Calls that a kill comes before.
KILLED = (
    "openat", "write", "pwrite64", "writev", "rename", "renameat2", "fsync", "fdatasync", "syncfs", "mkdir", "unlink",
    "unlinkat", "rmdir", "ftruncate", "link", "linkat", "close", "sendfile", "copy_file_range", "fallocate",
)  # fmt: skip

#: Calls that fail, with what a broken or full disk answers.  A close that fails has closed all the same.
FAILING = {
    "EIO": ("openat", "write", "pwrite64", "writev", "rename", "renameat2", "fsync", "fdatasync", "syncfs", "mkdir",
            "unlink", "unlinkat", "rmdir", "ftruncate", "link", "linkat", "sendfile", "copy_file_range", "fallocate"),
    "ENOSPC": ("openat", "write", "pwrite64", "writev", "rename", "renameat2", "fsync", "syncfs", "mkdir", "ftruncate",
               "link", "linkat", "sendfile", "copy_file_range", "fallocate"),
}  # fmt: skip


#: Exit status where no fault can be injected.
UNABLE = 77


@dataclass
class Tally:
    """What was done to one writer, and what was found."""

    writer: str
    kills: int = 0
    errors: int = 0
    losses: int = 0
    points: int = 0
    crashes: int = 0
    finds: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.writer:24s} {self.points:5d} calls, {self.kills:4d} kills, {self.errors:4d} errors, "
            f"{self.losses:4d} power losses, {len(self.finds)} finds"
            + (f" ({self.crashes} crashes of the netCDF library)" if self.crashes else "")
        )


class Stand:
    """A directory in which one writer is run again and again."""

    def __init__(self, writer: Writer, home: pathlib.Path) -> None:
        self.writer, self.home = writer, home
        self.folder = home / "run"
        self.log = home / "log"
        self.pristine = home / "pristine"
        self.crashes = 0
        self.folder.mkdir(parents=True)
        outcome = tracing.plain(lambda: writer.prepare(self.folder))
        assert outcome.status == 0, outcome.said
        tracing.load_what_is_needed(lambda: writer.run(self.folder))
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        outcome = tracing.plain(lambda: writer.prepare(self.folder))
        assert outcome.status == 0, outcome.said
        shutil.copytree(self.folder / "out", self.pristine, symlinks=True)

    def reset(self) -> None:
        """Make all as it was before the run; what a run never touches stays the very same files."""
        disk = powerloss.Disk(self.folder / "out")
        wanted = powerloss.Disk(self.pristine)
        # Equal files stay, so that those whose state is part of an answer are not new.
        equal = dict(_files(disk.top))
        for path, inode in _files(wanted.top):
            here = equal.get(path)
            inode.origin = here.origin if here is not None and here.data == inode.data else None
        disk.safe_names, disk.top = wanted.safe_names, wanted.top
        powerloss.Image(disk, wanted.safe_names, "safe", random.Random(0)).write()

    def points(self) -> dict[str, int]:
        """Return how often each call is made in a run without a fault, after seeing that it ends well."""
        self.reset()
        outcome = tracing.run(lambda: self.writer.run(self.folder), self.log)
        found = tracing.counts(self.log)
        assert outcome.status == 0, outcome.said
        said = self.judge(("new",))
        assert not said, said
        return found

    def judge(self, allowed: tuple[str, ...], *, finish: bool = True) -> str:
        """Look at what is there, finish it, and look again; return what is wrong."""

        def look() -> int:
            try:
                state = self.writer.state(self.folder)
            except Exception as error:  # noqa: BLE001
                print(f"state: {type(error).__name__}: {error}")
                return 1
            if state not in allowed:
                print(f"state: {state}")
                return 1
            if not finish:
                return 0
            status = self.writer.again(self.folder)
            if status:
                print(f"finishing: status {status}")
                return 1
            try:
                state = self.writer.state(self.folder)
            except Exception as error:  # noqa: BLE001
                print(f"finished: {type(error).__name__}: {error}")
                return 1
            litter = self.writer.litter(self.folder)
            if state != "new" or litter:
                print(f"finished: {state}, litter {litter}")
                return 1
            return 0

        outcome = tracing.plain(look)
        return "" if outcome.status == 0 else f"status {outcome.status}: {outcome.said.strip()[-600:]}"

    def kill(self, call: str, number: int) -> str:
        """Kill a run before one of its calls; return what is wrong afterwards."""
        self.reset()
        inject = f"{call}:signal=KILL:when={number}"
        outcome = tracing.run(lambda: self.writer.run(self.folder), self.log, inject=inject)
        if outcome.status not in (0, -9):
            return f"{inject}: status {outcome.status}: {outcome.said[-300:]}"
        said = self.judge(("new",) if outcome.status == 0 else ("old", "new"))
        return said and f"{inject}: {said}"

    def fail(self, call: str, error: str, when: str) -> str:
        """Let a call fail; return what is wrong afterwards."""
        self.reset()
        inject = f"{call}:error={error}:when={when}"
        outcome = tracing.run(lambda: self.writer.run(self.folder), self.log, inject=inject)
        # Where nothing can be written any more, nothing can be said either.
        mute = re.search(r"write\([12], .*INJECTED", self.log.read_text(errors="replace")) is not None
        if outcome.status in (-11, -6) and "HDF5 objects open" in outcome.said:
            # netCDF-C does not survive a file whose last bytes cannot be written; it is as if it had been killed.
            self.crashes += 1
            said = self.judge(("old", "new"))
            return said and f"{inject}: {said}"
        if outcome.status not in (0, 1, 2, 3 if mute else 2):
            return f"{inject}: status {outcome.status}: {outcome.said[-400:]}"
        lines = [line for line in outcome.said.splitlines() if not line.startswith(("note", "warning: "))]
        bug = "unexpected" in outcome.said or "Traceback" in outcome.said
        if bug or (
            outcome.status == 2
            and self.writer.says
            and not mute
            and not any("error: " in line or "not checked: " in line for line in lines)
        ):
            return f"{inject}: status {outcome.status} said {outcome.said[-400:]!r}"
        if outcome.status == 0:
            said = self.judge(("new",), finish=False)
            if not said and "could not be removed" not in outcome.said and self.writer.litter(self.folder):
                said = f"litter {self.writer.litter(self.folder)}"
            if said:
                return f"{inject}: status 0, {said}"
        said = self.judge(("old", "new"))
        return said and f"{inject}: said {outcome.said.strip()[-200:]!r}, then {said}"

    def record(self) -> powerloss.Disk:
        """Record a run."""
        self.reset()
        disk = powerloss.Disk(self.folder / "out")
        run = tracing.run(lambda: self.writer.run(self.folder), self.log, trace=tracing.RECORDED, record=True)
        assert run.status == 0, run.said
        return disk

    def lose_power(self, chance: random.Random, most: int, more: int) -> Iterator[str]:
        """Lose power at many moments; give for each what is wrong afterwards, which is nothing if all is well."""
        disk = self.record()
        calls = list(powerloss.calls(self.log))
        ends = [i for i, c in enumerate(calls) if self._matters(c)]
        chosen = set(ends if len(ends) * (2 + more) <= most else chance.sample(ends, max(1, most // (2 + more) - 1)))
        chosen.add(len(calls) - 1)
        seen: set[int] = set()
        version = -1
        for i, call in enumerate(calls):
            disk.follow(*call)
            if i not in chosen or (disk.version == version and i != len(calls) - 1):
                continue
            version = disk.version
            for image in list(disk.images(chance, more)):
                key = image.key()
                if key in seen and i != len(calls) - 1:
                    continue
                seen.add(key)
                image.write()
                # Whoever was told that the run has ended well has what it wrote.
                said = self.judge(("new",) if i == len(calls) - 1 else ("old", "new"))
                yield said and f"power loss after call {i} of {len(calls)} ({call[0].decode()}): {said}"

    def _matters(self, call: tuple) -> bool:
        return call[0] not in (b"lseek", b"close", b"dup", b"fcntl")


def _files(node: powerloss.Inode, path: str = "") -> Iterator[tuple[str, powerloss.Inode]]:
    for name, child in node.entries.items():
        place = f"{path}/{name}" if path else name
        if child.directory:
            yield from _files(child, place)
        else:
            yield place, child


def spread(points: dict[str, int], calls: tuple[str, ...], most: int, chance: random.Random) -> list[tuple[str, int]]:
    """Choose calls and numbers: all of them, as often as it takes, or so many at random, rare ones first."""
    every = [(c, n) for c in calls for n in range(1, points.get(c, 0) + 1)]
    if len(every) <= most:
        return every
    # Of calls that are made a few times, such as renames, each one counts.
    rare = [(c, n) for c, n in every if points[c] <= 4 and c != "openat"]
    rest = [e for e in every if e not in set(rare)]
    if len(rare) >= most:
        return chance.sample(rare, most)
    return rare + chance.sample(rest, most - len(rare))


def torment(writer: Writer, home: pathlib.Path, kills: int, errors: int, losses: int, seed: int = 0) -> Tally:
    """Do to a writer whatever may happen to it."""
    chance = random.Random(seed)
    stand = Stand(writer, home)
    tally = Tally(writer.name)
    points = stand.points()
    tally.points = sum(points.get(c, 0) for c in KILLED)
    done: list[tuple[str, int]] = []
    while len(done) < kills:
        done += spread(points, KILLED, kills - len(done), chance)
    for call, number in done:
        said = stand.kill(call, number)
        tally.kills += 1
        if said:
            tally.finds.append(said)
    wrong: list[tuple[str, str, str]] = []
    for error, calls in FAILING.items():
        wrong += [(c, error, str(n)) for c, n in spread(points, calls, errors // 3, chance)]
    full = spread(points, ("write", "openat", "pwrite64", "mkdir", "syncfs"), errors - len(wrong), chance)
    wrong += [(c, "ENOSPC", f"{n}+") for c, n in full]
    while len(wrong) < errors:
        wrong += [(c, "EIO", str(n)) for c, n in spread(points, FAILING["EIO"], errors - len(wrong), chance)]
    for call, error, when in wrong:
        said = stand.fail(call, error, when)
        tally.errors += 1
        if said:
            tally.finds.append(said)
    tally.crashes = stand.crashes
    if losses:
        for said in stand.lose_power(chance, losses, 2):
            tally.losses += 1
            if said:
                tally.finds.append(said)
    return tally


def main(arguments: list[str]) -> int:
    """Torment writers, and print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("writers", nargs="*", default=[])
    for name in ("kills", "errors", "losses"):
        parser.add_argument(f"--{name}", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    reason = tracing.works()
    if reason:
        print(reason)
        return UNABLE
    finds = 0
    for name in args.writers or WRITERS:
        with tempfile.TemporaryDirectory(dir=args.folder) as home:
            began = time.monotonic()
            tally = torment(WRITERS[name], pathlib.Path(home), args.kills, args.errors, args.losses, args.seed)
            print(f"{tally} in {time.monotonic() - began:.0f} s", flush=True)
            for find in tally.finds:
                print("   ", find, flush=True)
            finds += len(tally.finds)
    return int(finds > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
