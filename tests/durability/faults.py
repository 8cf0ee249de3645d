"""Runs of every writer with a fault at some system call, or a power loss at some moment, and what is found afterwards.

Run as a program: ``python -m tests.durability.faults FOLDER [--kills N] [--errors N] [--losses N] [WRITER …]``.  It
prints a line for each writer, and every find; its status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import copy
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.durability import powerloss, tracing
from tests.durability.writers import WRITERS, Writer

#: Calls that a kill comes before.
KILLED = (
    "openat", "write", "pwrite64", "writev", "rename", "renameat2", "fsync", "fdatasync", "syncfs", "mkdir", "unlink",
    "unlinkat", "rmdir", "ftruncate", "link", "linkat", "close", "sendfile", "copy_file_range", "fallocate",
    "sync_file_range",
)  # fmt: skip

#: Calls that fail, with what a broken or full disk answers.  Network file systems tell of both when a file is closed.
FAILING = {
    "EIO": ("openat", "write", "pwrite64", "writev", "rename", "renameat2", "fsync", "fdatasync", "syncfs", "mkdir",
            "unlink", "unlinkat", "rmdir", "ftruncate", "link", "linkat", "sendfile", "copy_file_range", "fallocate",
            "close", "sync_file_range"),
    "ENOSPC": ("openat", "write", "pwrite64", "writev", "rename", "renameat2", "fsync", "fdatasync", "syncfs", "mkdir",
               "ftruncate", "link", "linkat", "sendfile", "copy_file_range", "fallocate", "close", "sync_file_range"),
}  # fmt: skip


#: What is another in each run: numbers of processes, and what makes names their own.
_NUMBERS = re.compile(r"\d+-[0-9a-f]{8}|(?<=\.)\d+(?=\.part)")

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
    finds: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.writer:24s} {self.points:5d} calls, {self.kills:4d} kills, {self.errors:4d} errors, "
            f"{self.losses:4d} power losses, {len(self.finds)} finds"
        )


class Stand:
    """A directory in which one writer is run again and again; it imports what that needs, unless it is `loaded`."""

    def __init__(self, writer: Writer, home: pathlib.Path, *, loaded: bool = False) -> None:
        self.writer, self.home = writer, home
        self.folder = home / "run"
        self.log = home / "log"
        self.recorded = home / "recorded"
        self.pristine = home / "pristine"
        #: What was found well: what a run left, and what it was allowed to leave.
        self._well: set[int] = set()
        self.folder.mkdir(parents=True)
        outcome = tracing.plain(lambda: writer.prepare(self.folder))
        assert outcome.status == 0, outcome.said
        if not loaded:
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

    def record(self) -> powerloss.Disk:
        """Record a run without a fault, see that it ends well, and return the disk as it was before."""
        self.reset()
        disk = powerloss.Disk(self.folder / "out")
        run = tracing.run(
            lambda: self.writer.run(self.folder),
            self.recorded,
            trace=tracing.RECORDED,
            record=True,
            lacking=self.writer.lacks,
        )
        assert run.status == 0, run.said
        said = self.judge(("new",))
        assert not said, said
        return disk

    def points(self) -> dict[str, int]:
        """Return how often each call was made in the run that was recorded."""
        return tracing.counts(self.recorded)

    def judge(self, allowed: tuple[str, ...], *, finish: bool = True) -> str:
        """Look at what is there, finish it, and look again; return what is wrong.

        What was found well once is not looked at again.
        """
        left = hash((self._left(), allowed, finish))
        if left in self._well:
            return ""

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

        lacks = self.writer.lacks
        outcome = (
            tracing.run(look, self.home / "judged", trace="rmdir", lacking=lacks) if lacks else tracing.plain(look)
        )
        if outcome.status == 0:
            self._well.add(left)
            return ""
        return f"status {outcome.status}: {outcome.said.strip()[-600:]}"

    def _left(self) -> tuple:
        """Return what there is, but for numbers of processes and inodes in it."""
        disk = powerloss.Disk(self.folder / "out")
        found: list[tuple] = []
        for path, inode in _files(disk.top):
            data: object = inode.data
            if path.endswith("/done") and b" " in inode.data:
                number = int(inode.data.split()[0])
                data = [p for p in (self.folder / "out").rglob("*") if p.is_dir() and p.stat().st_ino == number]
                data = str(data), inode.data.split()[1] == b"%d" % data[0].stat().st_mtime_ns if data else None
            found.append((_NUMBERS.sub("N", path), inode.link, data))
        folders = sorted(_NUMBERS.sub("N", str(p)) for p in (self.folder / "out").rglob("*") if p.is_dir())
        builds = sorted((n.build or b"") for n in disk._walk(disk.top) if n.directory)
        return tuple(sorted(found, key=str)), tuple(folders), tuple(builds)

    def kill(self, call: str, number: int) -> str:
        """Kill a run before one of its calls; return what is wrong afterwards."""
        self.reset()
        inject = f"{call}:signal=KILL:when={number}"
        outcome = tracing.run(lambda: self.writer.run(self.folder), self.log, inject=inject, lacking=self.writer.lacks)
        if outcome.status not in (0, -9):
            return f"{inject}: status {outcome.status}: {outcome.said[-300:]}"
        said = self.judge(("new",) if outcome.status == 0 else ("old", "new"))
        return said and f"{inject}: {said}"

    def fail(self, call: str, error: str, when: str) -> str:
        """Let a call fail; return what is wrong afterwards."""
        self.reset()
        inject = f"{call}:error={error}:when={when}"
        outcome = tracing.run(lambda: self.writer.run(self.folder), self.log, inject=inject, lacking=self.writer.lacks)
        # Where nothing can be written any more, nothing can be said either.
        mute = re.search(r"write\([12], .*INJECTED", self.log.read_text(errors="replace")) is not None
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
        if names := names_of_work(outcome.said):
            return f"{inject}: names shown that are nobody's business: {names}"
        if outcome.status == 0:
            said = self.judge(("new",), finish=False)
            if not said and "could not be removed" not in outcome.said and self.writer.litter(self.folder):
                said = f"litter {self.writer.litter(self.folder)}"
            if said:
                return f"{inject}: status 0, {said}"
        said = self.judge(("old", "new"))
        return said and f"{inject}: said {outcome.said.strip()[-200:]!r}, then {said}"

    def lose_power(
        self, disk: powerloss.Disk, chance: random.Random, most: int, forgotten: frozenset[bytes | int] = frozenset()
    ) -> Iterator[str]:
        """Lose power at moments of the recorded run; give for each what is wrong afterwards, nothing if all is well.

        The disk is that before the run, and nothing was run since it was recorded.  Calls that are `forgotten`, by
        name or number, are those that a faulty writer would not have made.

        Every call after which a disk may hold something else is a moment.  What is safe for certain, and the same with
        all names, are looked at for each of them, mixtures for as many as `most` allows; equal ones only once.
        """
        disk = copy.deepcopy(disk)
        every = enumerate(powerloss.calls(self.recorded))
        calls = [call for i, call in every if call[0] not in forgotten and i not in forgotten]
        found: list[tuple[int, powerloss.Image]] = []
        seen: set[int] = set()
        version = -1
        for i, call in enumerate(calls):
            disk.follow(*call)
            last = i == len(calls) - 1
            if disk.version == version and not last:
                continue
            version = disk.version
            for number, image in enumerate(disk.images(chance, 2 if most < 20 else 8)):
                key = image.key()
                if key not in seen or last:
                    seen.add(key)
                    found.append((i if number < 2 else ~i, image))
        sure, mixed = [f for f in found if f[0] >= 0], [f for f in found if f[0] < 0]
        end = [f for f in found if f[0] in (len(calls) - 1, ~(len(calls) - 1))]
        sure = sure if len(sure) <= most else [*chance.sample(sure, most // 2), *end]
        mixed = chance.sample(mixed, min(len(mixed), max(0, most - len(sure))))
        for i, image in sorted({id(f): f for f in (*sure, *mixed, *end)}.values(), key=lambda f: max(f[0], ~f[0])):
            i = max(i, ~i)
            image.write()
            # Whoever was told that the run has ended well has what it wrote.
            said = self.judge(("new",) if i == len(calls) - 1 else ("old", "new"))
            yield said and f"power loss after call {i} of {len(calls)} ({calls[i][0].decode()}): {said}"


def names_of_work(said: str) -> list[str]:
    """Return names of work directories and files that are shown, but for those that are left and named as such."""
    lines = [line for line in said.splitlines() if "could not be removed" not in line]
    return re.findall(r"\S*(?:\.cfagg-(?!index\b)|\.part\b|/proc/self|\.tmp\b)\S*", "\n".join(lines))


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


def torment(
    writer: Writer,
    home: pathlib.Path,
    kills: int,
    errors: int,
    losses: int,
    seed: int = 0,
    meanwhile: Callable[[Tally], None] = lambda _: None,
    *,
    loaded: bool = False,
) -> Tally:
    """Do to a writer whatever may happen to it; `meanwhile` is called after each fault."""
    chance = random.Random(seed)
    stand = Stand(writer, home, loaded=loaded)
    tally = Tally(writer.name)
    disk = stand.record()
    points = stand.points()
    tally.points = sum(points.get(c, 0) for c in KILLED)
    if losses:
        for said in stand.lose_power(disk, chance, losses):
            tally.losses += 1
            if said:
                tally.finds.append(said)
            meanwhile(tally)
    done: list[tuple[str, int]] = []
    while len(done) < kills:
        done += spread(points, KILLED, kills - len(done), chance)
    wrong: list[tuple[str, str, str]] = []
    for error, calls in FAILING.items():
        wrong += [(c, error, str(n)) for c, n in spread(points, calls, errors // 3, chance)]
    full = spread(points, ("write", "openat", "pwrite64", "mkdir", "syncfs"), errors - len(wrong), chance)
    wrong += [(c, "ENOSPC", f"{n}+") for c, n in full]
    while len(wrong) < errors:
        wrong += [(c, "EIO", str(n)) for c, n in spread(points, FAILING["EIO"], errors - len(wrong), chance)]
    faults: list[tuple[str, ...]] = [*((c, str(n)) for c, n in done), *wrong]
    # Whenever it is stopped, something of each was done.
    chance.shuffle(faults)
    for fault in faults:
        if len(fault) == 2:
            said = stand.kill(fault[0], int(fault[1]))
            tally.kills += 1
        else:
            said = stand.fail(*fault)
            tally.errors += 1
        if said:
            tally.finds.append(said)
        meanwhile(tally)
    return tally


def meanwhile(log: str | None) -> Callable[[Tally], None]:
    """Return what keeps a tally in a file."""

    def keep(tally: Tally) -> None:
        if log is not None:
            pathlib.Path(log).write_text("\n    ".join([str(tally), *tally.finds]) + "\n")

    return keep


def main(arguments: list[str]) -> int:
    """Torment writers, and print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("writers", nargs="*", default=[])
    for name in ("kills", "errors", "losses"):
        parser.add_argument(f"--{name}", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", help="a file that tells how far it has come")
    args = parser.parse_args(arguments)
    reason = tracing.works()
    if reason:
        print(reason)
        return UNABLE
    finds = 0
    for name in args.writers or WRITERS:
        with tempfile.TemporaryDirectory(dir=args.folder) as home:
            began = time.monotonic()
            tally = torment(
                WRITERS[name], pathlib.Path(home), args.kills, args.errors, args.losses, args.seed, meanwhile(args.log)
            )
            print(f"{tally} in {time.monotonic() - began:.0f} s", flush=True)
            for find in tally.finds:
                print("   ", find, flush=True)
            finds += len(tally.finds)
    return int(finds > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
