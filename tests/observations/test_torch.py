"""Samples of observations in a DataLoader of PyTorch, where that is installed."""

from __future__ import annotations

import numpy as np
import pytest

import cfagg
from tests.observations.small_stores import hourly

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    path, _ = hourly(tmp_path_factory.mktemp("torch") / "synop.zarr")
    return cfagg.open_observations(path, 2020, "2020-01-03", "(-3,+3]", "6h", sample="deltatime")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_workers_of_a_loader_give_the_samples_in_batches(ds, method) -> None:
    from tests.observations.torch_dataset import loader

    batches = list(loader(ds, batch_size=5, num_workers=2, multiprocessing_context=method))
    assert [len(b["rows"]) for b in batches] == [5, 5, 2]
    assert np.array_equal(torch.cat([b["rows"] for b in batches]), ds.counts)
    assert np.array_equal(torch.cat([b["values"] for b in batches]), ds[:])
    assert np.array_equal(torch.cat([b["timedeltas"] for b in batches]), ds[:].timedeltas)


def test_a_shuffled_loader_gives_every_sample_once(ds) -> None:
    from tests.observations.torch_dataset import loader

    batches = list(loader(ds, batch_size=1, shuffle=True, generator=torch.Generator().manual_seed(0)))
    rows = [int(b["rows"][0]) for b in batches]
    assert sorted(rows) == sorted(ds.counts.tolist())
    assert rows != ds.counts.tolist()


def test_a_loader_takes_a_dataset_without_an_adapter(ds) -> None:
    samples = list(torch.utils.data.DataLoader(ds, batch_size=None, collate_fn=None))
    assert [tuple(x.shape) for x in samples] == [x.shape for x in ds]
    assert torch.equal(torch.from_numpy(ds[3]), torch.from_numpy(np.array(ds[3])))
