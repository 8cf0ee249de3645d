"""The adapter for PyTorch that the documentation shows."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class ObservationDataset(Dataset):
    """Samples of observations as tensors."""

    def __init__(self, ds):
        self.ds = ds

    def __len__(self):
        return len(self.ds)

    def __getitem__(self, i):
        return tensors(self.ds[i])

    def __getitems__(self, numbers):
        # One batch: the rows of its samples one below the other, looked up at once and decoded by several threads.
        return tensors(self.ds[numbers])


def tensors(x):
    return {
        "values": torch.from_numpy(np.ascontiguousarray(x)),
        "latitudes": torch.from_numpy(x.latitudes.copy()),
        "longitudes": torch.from_numpy(x.longitudes.copy()),
        "timedeltas": torch.from_numpy(x.timedeltas),
        "rows": torch.tensor([b.stop - b.start for b in x.boundaries]),
    }


def as_it_is(batch):
    return batch


def loader(ds, **options):
    """Load batches of samples: a dictionary of tensors each."""
    return DataLoader(ObservationDataset(ds), collate_fn=as_it_is, **options)
