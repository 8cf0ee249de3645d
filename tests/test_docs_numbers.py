"""Numbers that the documentation gives are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cfagg.accumulation import outliers, proof
from cfagg.arrays import blocks, fragments, plan
from cfagg.arrays.index import lookup, parquet
from cfagg.conventions import limits
from cfagg.conversion import chunks, options
from cfagg.display import axes, drawing, matrix, summary
from cfagg.formats import parquet_pages
from cfagg.formats.metadata import url
from cfagg.formats.zarr import grids, remote_batches
from cfagg.formats.zarr import written_codecs as codecs
from cfagg.kernels import statistics
from cfagg.observations import cache, checking
from cfagg.observations.indexes import pages_writing
from cfagg.runtime import budget
from cfagg.storage import handles, http_options, objects, remote_file, transport
from cfagg.writing.exports import kerchunk
from cfagg.writing.zarr import chunk_copying, object_place

DOCS = Path(__file__).parents[1] / "docs"

MIB, MILLION = 2**20, 10**6


@pytest.mark.parametrize(
    ("page", "sentence", "number", "expected"),
    [
        ("reading.md", r"Chunks above (\d+) GiB are refused", 1, limits.MAX_CHUNK / 2**30),
        ("reading.md", r"Up to eight levels are followed", None, fragments.MAX_NESTING == 8),
        ("reading.md", r"smaller than half a MiB", None, blocks.SHARE_BYTES == MIB / 2),
        ("reading.md", r"blocks of about (\d+) MiB", 1, blocks.BLOCK_BYTES // MIB),
        ("remote.md", r"less than (\d+) KiB between them are one request", 1, remote_batches._GAP / 1024),
        ("remote.md", r"Sixteen chunks of a Zarr array are requested at a time", None, remote_batches.AT_ONCE == 16),
        ("reading.md", r"more than ([\d,]+) unequal chunks", 1, grids._LISTED),
        ("reading.md", r"at most ([\d,]+) equal chunks along each", 1, grids._COARSE),
        ("remote.md", r"metadata are read in blocks of (\d+) KiB", 1, remote_file.BLOCK / 1024),
        ("remote.md", r"may be silent \((\d+)\)", 1, http_options._TIMEOUT),
        ("remote.md", r"may take with all retries \((\d+)\)", 1, http_options._DEADLINE),
        ("remote.md", r"Failed requests are tried four times", None, transport._ATTEMPTS == 4),
        ("remote.md", r"A fragment has at most ([\d,]+) MiB", 1, objects._AT_ONCE / MIB),
        ("remote.md", r"the environment again every minute", None, objects._RENEWED.total_seconds() == 60),
        ("remote.md", r"the claim is written again every ten", None, object_place.BELIEVED == 10),
        ("appending.md", r"one on another machine after two minutes", None, object_place.LEASE == 120),
        ("byte_offset_index.md", r"the server is asked again after a minute", None, lookup._SPARED == 60),
        ("byte_offset_index.md", r"more than 2\^28 values", None, parquet_pages.VALUES == 2**28),
        ("byte_offset_index.md", r"(\d+) values and 128 unpacked bytes for each", 1, parquet._VALUES),
        ("byte_offset_index.md", r"values and (\d+) unpacked bytes for each", 1, parquet._UNPACKED),
        (
            "byte_offset_index.md",
            r"a million values and 32 MB",
            None,
            (parquet._FEW_VALUES, parquet._FEW_BYTES) == (MIB, 32 * MIB),
        ),
        ("references.md", r"only up to (\d+) MiB for each variable", 1, kerchunk.INLINE / MIB),
        ("concatenating.md", r"\(one in eight, or fewer\)", None, chunk_copying._SPARSE == 8),
        ("converting.md", r"chunks of about (\d+) MiB", 1, chunks.TARGET / MIB),
        ("converting.md", r"together \((\d+) MiB by default", 1, options.DEFAULT_MEMORY / MIB),
        ("converting.md", r"`--codec auto` \(default: zstd of level (\d)\)", 1, codecs._LEVELS["zstd"]),
        ("showing.md", r"Lists of more than (\d+) lines", 1, summary.ROWS),
        ("showing.md", r"More than (\d+) partitions to the right", 1, axes._MOST[0]),
        ("showing.md", r"to the right, (\d+) downwards", 1, axes._MOST[1]),
        ("showing.md", r"downwards or (\d+) in depth", 1, axes._MOST[2]),
        ("showing.md", r"More than ten files are coloured from a gradient", None, len(drawing.DISTINCT) == 10),
        ("showing.md", r"up to four layers in depth", None, matrix._LAYERS == 4),
        ("accumulation.md", r"2⁻³⁰ · max", None, proof.TOLERANCE == 2.0**-30),
        ("accumulation.md", r"\(2²⁰, or 2⁷³ with", None, outliers._BEYOND == {"float64": 20, "double-double": 73}),
        ("accumulation.md", r"At most ([\d,]+) of them are listed", 1, outliers.MOST),
        ("accumulation.md", r"merges (\d) by 8", 1, statistics.FAN_OUT),
        ("observations.md", r"\*pages\* beside it: (\d+) entries each", 1, pages_writing.PAGE),
        ("observations.md", r"datasets of a process share: (\d+) MiB", 1, cache.DEFAULT_BUDGET / MIB),
        ("observations.md", r"samples from (\d+) places", 1, checking._PLACES),
        ("observations.md", r"more than a million rows", None, checking._SAMPLE_ROWS == MIB),
        ("nca.md", r"more than two billion characters", None, limits.MAX_TEXT == 2**31),
        ("nca.md", r"\((\d+) levels in text that needs a repair\)", 1, limits.MAX_DEPTH),
        ("nca.md", r"more than (\d+) million partitions", 1, limits.MAX_PARTITIONS // MILLION),
        ("nca.md", r"at most a million indices", None, limits.MAX_PART_LIST == MILLION),
        ("nca.md", r"more than (\d+) dimensions", 1, limits.MAX_RANK),
        ("projection.md", r"up to some ([\d,]+) rows", 1, plan.KERNEL_ROWS // 10**4 * 10**4),
        ("architecture.md", r"With pages of (\d+) entries", 1, pages_writing.PAGE),
    ],
)
def test_a_number_on_a_page_is_that_of_the_code(page: str, sentence: str, number: int | None, expected: object) -> None:
    text = " ".join((DOCS / page).read_text(encoding="utf-8").split())
    found = re.search(sentence, text)
    assert found, f"{page} no longer says {sentence!r}"
    assert (True if number is None else float(found[number].replace(",", ""))) == expected


def test_defaults_in_help_texts_are_those_of_the_functions() -> None:
    import inspect

    from cfagg.accumulation.accumulating import accumulate
    from cfagg.cli.main import _parser
    from cfagg.conversion.converting import convert
    from cfagg.observations.creating import create_observations

    def shown(words: list[str], option: str) -> str:
        parser = _parser(words)
        for word in words:
            parser = next(a for a in parser._actions if a.choices and word in a.choices).choices[word]
        text = next(a.help for a in parser._actions if option in a.option_strings)
        return re.search(r"\(default: ([^)]+)\)", text)[1]

    def default(function: object) -> int:
        return budget.parse_size(inspect.signature(function).parameters["memory"].default)

    assert budget.parse_size(shown(["convert"], "--memory")) == default(convert)
    assert budget.parse_size(shown(["accumulate"], "--memory")) == default(accumulate)
    assert budget.parse_size(shown(["obs", "create"], "--memory")) == default(create_observations)
    assert float(shown(["check"], "--timeout")) == url.WAIT


def test_a_pool_keeps_an_eighth_of_what_the_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    for most, kept in ((256, 32), (4096, 128), (resource.RLIM_INFINITY, 128)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, most=most: (most, most))
        assert handles.share_of_open_files() == kept
