"""What anndata reads of a store of rows, and a matrix as it writes one: ``python anndata_probe.py STORE NEW``."""

import json
import sys

import numpy as np
import scipy.sparse
import zarr
from anndata.io import sparse_dataset, write_elem

zarr.config.set({"array.rectilinear_chunks": True})
matrix = sparse_dataset(zarr.open_group(sys.argv[1], mode="r"))
found = {"all": matrix[:].toarray().tolist(), "some": matrix[np.array([1, 7, 30])].toarray().tolist()}
write_elem(zarr.open_group(sys.argv[2], mode="w"), "X", scipy.sparse.csr_matrix(matrix[:]))
print(json.dumps(found))
