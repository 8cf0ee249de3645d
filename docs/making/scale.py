"""The tables and the picture of the page about scale: ``python docs/making/scale.py`` writes the tables into the page.

What was measured stands in ``scale.json``, which ``python -m tests.benchmarks.scale`` makes; everything else is
computed here from it and from what is assumed of an archive, its workers and an object store.
"""

from __future__ import annotations

import functools
import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "scale.md"

#: Numbers of partitions or chunks of the first table.
SIZES = tuple(10**k for k in range(3, 8))

#: Numbers of workers of the tables about the archive.
WORKERS = (1, 16, 256, 4096)

DAY, YEAR = 86400.0, 365.25 * 86400


@dataclass(frozen=True)
class Archive:
    """An archive of the size of CMIP6, as it is stored: in bytes, and on average."""

    stored: float = 1e15
    file: float = 200e6
    chunk: float = 2e6  # as it is stored
    ratio: float = 2.0  # how much larger values are in memory
    shard: float = 200e6  # as it is stored

    @property
    def files(self) -> float:
        """Number of files, each a partition."""
        return self.stored / self.file

    @property
    def chunks(self) -> float:
        """Number of chunks."""
        return self.stored / self.chunk

    @property
    def shards(self) -> float:
        """Number of objects of a sharded store."""
        return self.stored / self.shard

    @property
    def megabytes(self) -> float:
        """Megabytes of values in memory."""
        return self.stored * self.ratio / 1e6


@dataclass(frozen=True)
class Cloud:
    """An object store and the workers beside it; prices in dollars, as large providers list them."""

    cores: int = 4  # of a worker
    network: float = 1.25e9  # bytes a second of a worker: 10 Gbit/s
    latency: float = 0.03  # seconds to the first byte
    at_once: int = 32  # requests of a worker under way
    gets: float = 5500.0  # a second, of one prefix
    puts: float = 3500.0
    prefixes: int = 16  # over which the archive's keys are spread
    get_price: float = 0.4e-6
    put_price: float = 5e-6
    core_price: float = 0.04  # an hour


@dataclass(frozen=True)
class Work:
    """One job on the whole archive."""

    name: str
    cpu: float  # core seconds
    moved: float  # bytes over the network
    gets: float
    puts: float = 0.0

    def limits(self, workers: int, cloud: Cloud) -> dict[str, float]:
        """Return the seconds that each resource takes by itself."""
        requests = self.gets + self.puts
        return {
            "processors": self.cpu / (workers * cloud.cores),
            "network": self.moved / (workers * cloud.network),
            "latency": requests * cloud.latency / (workers * cloud.at_once),
            "request rate": max(self.gets / cloud.gets, self.puts / cloud.puts) / cloud.prefixes,
        }

    def slowest(self, workers: int, cloud: Cloud) -> tuple[str, float]:
        """Return what takes longest, and how long: all resources are used at once."""
        return max(self.limits(workers, cloud).items(), key=lambda item: item[1])

    def price(self, cloud: Cloud) -> tuple[float, float]:
        """Return the dollars for requests and for processors."""
        return self.gets * cloud.get_price + self.puts * cloud.put_price, self.cpu / 3600 * cloud.core_price


@functools.cache
def measured() -> dict[str, Any]:
    """Return what was measured."""
    found: dict[str, Any] = json.loads((HERE / "scale.json").read_text(encoding="utf-8"))
    return found


def each(name: str, n: int) -> tuple[float, bool]:
    """Return the CPU seconds of a job for each of `n`, or once among them, and whether that was measured.

    Beyond the largest size that was tried, each is taken to cost as much as at that size, or in proportion to their
    number if it grows with it; below the smallest, too.
    """
    job = measured()["jobs"][name]
    seconds = {int(k): v / (1 if job["once"] else int(k)) for k, v in job["seconds"].items()}
    nearest = min(seconds, key=lambda k: abs(math.log(k / n)))
    return seconds[nearest] * (n / nearest if job.get("grows") else 1), n in seconds


def costs() -> str:
    """Return the cost of every job for each partition or chunk; computed ones are in italics."""
    lines = [
        "| job | a | " + " | ".join(f"of {n:,}" for n in SIZES) + " |",
        "|---|---|" + "---:|" * len(SIZES),
    ]
    for name, job in measured()["jobs"].items():
        cells = []
        for n in SIZES:
            seconds, real = each(name, n)
            cells.append(_micro(seconds) if real else f"*{_micro(seconds)}*")
        lines.append(f"| {name} | {job['unit']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rates() -> str:
    """Return how fast values are moved by one core."""
    lines = ["| job | MB of values a second |", "|---|---:|"]
    return "\n".join([*lines, *(f"| {name} | {rate:,.0f} |" for name, rate in measured()["rates"].items())])


def assumed() -> str:
    """Return what is assumed."""
    a, c = Archive(), Cloud()
    rows = [
        ("archive, as stored", f"{a.stored / 1e15:g} PB, {a.ratio:g} times that in memory"),
        ("files", f"{a.files:,.0f} of {a.file / 1e6:g} MB, each a partition"),
        ("chunks", f"{a.chunks:,.0f} of {a.chunk / 1e6:g} MB"),
        ("shards, where there are any", f"{a.shards:,.0f} of {a.shard / 1e6:g} MB"),
        ("a worker", f"{c.cores} cores, {c.network * 8 / 1e9:g} Gbit/s, {c.at_once} requests at once"),
        ("a request", f"{c.latency * 1e3:g} ms to the first byte"),
        ("the store", f"{c.gets:,.0f} GET and {c.puts:,.0f} PUT a second for each of {c.prefixes} prefixes"),
        ("requests", f"${c.get_price * 1e6:.2f} a million GET, ${c.put_price * 1e6:.2f} a million PUT"),
        ("processors", f"${c.core_price:.2f} an hour and core"),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {what} | {how} |" for what, how in rows)])


def works() -> tuple[Work, ...]:
    """Return the jobs on the whole archive."""
    a, rate = Archive(), measured()["rates"]
    header = 1e5  # bytes of a file that describe it and say where its chunks stand

    def values(name: str) -> float:
        return a.megabytes / rate[name]

    chunk = each("read all chunks, zstd", 10**5)[0]
    built = each("build an accumulation", 10**4)[0]
    converting = values("convert netCDF-4 to Zarr")
    # A header takes two requests; chunks of one file are neighbours, and read by ranges of 16 MB.
    ranges = a.stored / 16e6
    return (
        Work("aggregate all files", a.files * each("aggregate files", 10**3)[0], a.files * header, 2 * a.files),
        Work(
            "index all chunks",
            a.files * each("locate the chunks of a file", 10**3)[0],
            a.files * header,
            2 * a.files,
        ),
        Work("convert to Zarr, a chunk an object", converting, 2 * a.stored, ranges, a.chunks),
        Work("convert to sharded Zarr", converting, 2 * a.stored, ranges, a.shards),
        Work(
            "accumulate, a chunk an object",
            values("accumulate over time") + a.chunks * built,
            a.stored,
            a.chunks,
            a.chunks / 1000,
        ),
        Work(
            "accumulate, sharded",
            values("accumulate over time") + a.chunks * built,
            a.stored,
            2 * a.shards,
            a.chunks / 1000,
        ),
        Work("read everything once", values("read Zarr, zstd") + a.chunks * chunk, a.stored, 2 * a.shards),
        Work("a series at one point, a chunk of each file", a.files * chunk, a.files * a.chunk, a.files),
    )


def archive() -> str:
    """Return how long the jobs take on the archive, by the number of workers, and what limits them."""
    lines = [
        "| job | " + " | ".join(f"{n:,} workers" if n > 1 else "1 worker" for n in WORKERS) + " |",
        "|---|" + "---|" * len(WORKERS),
    ]
    for work in works():
        cells = []
        for n in WORKERS:
            what, seconds = work.slowest(n, Cloud())
            cells.append(f"{_long(seconds)}, {what}")
        lines.append(f"| {work.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def next_limits() -> str:
    """Return what limits each job next, and from how many workers on more of them do not help."""
    lines = ["| job | limited by | limit changes at this many workers, to | time from then on |", "|---|---|---|---|"]
    for work in works():
        first, _ = work.slowest(1, Cloud())
        floor = work.limits(1, Cloud())["request rate"]
        # What is divided among workers falls until the rate of requests, which is not, is what takes longest.
        divided = max(v for k, v in work.limits(1, Cloud()).items() if k != "request rate")
        n = max(1, math.ceil(divided / floor))
        lines.append(f"| {work.name} | {first} | {n:,}: request rate | {_long(floor)} |")
    return "\n".join(lines)


def latency() -> str:
    """Return what latency and prices do to each job."""
    slow = (0.01, 0.03, 0.1)
    lines = [
        "| job | requests | "
        + " | ".join(f"waiting at {s * 1e3:g} ms" for s in slow)
        + " | for requests | for processors |",
        "|---|---:|" + "---:|" * len(slow) + "---:|---:|",
    ]
    for work in works():
        cells = []
        for s in slow:
            waiting = (work.gets + work.puts) * s / (WORKERS[1] * Cloud().at_once)
            cells.append(_long(waiting))
        requests, processors = work.price(Cloud())
        lines.append(
            f"| {work.name} | {float(f'{work.gets + work.puts:.2g}'):,.0f} | "
            + " | ".join(cells)
            + f" | {_dollars(requests)} "
            f"| {_dollars(processors)} |"
        )
    return "\n".join(lines)


def memory() -> str:
    """Return what the descriptions of very many partitions take in one process."""
    size = measured()["bytes of a partition in memory"]
    lines = [
        "| partitions | memory of their columns | reading their description | planning all of them |",
        "|---:|---:|---:|---:|",
    ]
    for n in SIZES:
        (read, real), (planned, _) = each("read an aggregation's description", n), each("plan the whole array", n)
        reading = _long(read * n)
        lines.append(
            f"| {n:,} | {size * n / 1e6:,.3g} MB | {reading if real else f'*{reading}*'} | {_long(planned * n)} |"
        )
    return "\n".join(lines)


#: Name of a table -> what makes it.
TABLES = {
    "costs": costs,
    "rates": rates,
    "memory": memory,
    "assumed": assumed,
    "archive": archive,
    "next": next_limits,
    "latency": latency,
}


def page(text: str) -> str:
    """Return the page with every table as it is now, and the machine on which it was measured."""
    for name, make in TABLES.items():
        mark = f"<!-- scale: {name} -->"
        if mark not in text:
            raise ValueError(f"the page has no place for the table {name!r}")
        before, _, rest = text.partition(mark)
        after = rest.partition("<!-- end -->")[2]
        text = f"{before}{mark}\n\n{make()}\n\n<!-- end -->{after}"
    return re.sub(
        r"Measured on .*?\.\n\n",
        lambda _: f"Measured on {measured()['date']} on {measured()['machine']}.\n\n",
        text,
        count=1,
    )


def draw() -> bytes:
    """Return the curves of the cost of each against their number as SVG, dashed where it is computed."""
    from making.figures import MUTED, figure, svg

    canvas = figure(8.4, 5.2)
    axes = canvas.subplots()
    hues = (
        "#332288",
        "#88ccee",
        "#44aa99",
        "#117733",
        "#999933",
        "#ddaa33",
        "#cc6677",
        "#882255",
        "#aa4499",
        "#777777",
    )
    for k, name in enumerate(measured()["jobs"]):
        costs_ = [each(name, n) for n in SIZES]
        style: dict[str, Any] = {"color": hues[k % len(hues)], "lw": 1.6}
        real = [(n, 1e6 * c) for n, (c, was) in zip(SIZES, costs_, strict=True) if was]
        beyond = [
            (n, 1e6 * c) for n, (c, was) in zip(SIZES, costs_, strict=True) if not was and n >= max(x for x, _ in real)
        ]
        axes.loglog(*zip(*real, strict=True), marker="o" if k < len(hues) else "s", ms=4, label=name, **style)
        if beyond:
            axes.loglog(*zip(real[-1], *beyond, strict=True), ls=":", **style)
    axes.set_xlabel("partitions, chunks or files", color=MUTED)
    axes.set_ylabel("CPU of each, microseconds", color=MUTED)
    axes.grid(visible=True, color="#dddddd", lw=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return svg(canvas)


def _micro(seconds: float) -> str:
    """Return a short time in the unit that suits it.

    >>> _micro(4.71e-6), _micro(2.3e-9), _micro(5e-12), _micro(0.00077), _micro(0.0036)
    ('4.7 µs', '2.3 ns', '0.005 ns', '770 µs', '3.6 ms')
    """
    for unit, size in (("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{_two(seconds / size)} {unit}"
    return f"{_two(seconds * 1e9)} ns"


def _two(value: float) -> str:
    """Return a number with two digits that count."""
    return f"{float(f'{value:.2g}'):g}"


def _long(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> _long(0.02), _long(300), _long(8000), _long(3e5), _long(1e8)
    ('20 ms', '5 min', '2.2 h', '3.5 days', '3.2 years')
    """
    for unit, size in (("years", YEAR), ("days", DAY), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= 1.5 * size:
            return f"{_two(seconds / size)} {unit}"
    return f"{_two(seconds * 1e3)} ms"


def _dollars(amount: float) -> str:
    return f"${float(f'{amount:.2g}'):,.0f}" if amount >= 1 else f"${amount:.2g}"


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
