"""What the documentation shows of observations is what is tested."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def test_the_adapter_for_pytorch_is_the_tested_one() -> None:
    code = (HERE / "torch_dataset.py").read_text(encoding="utf-8").partition('"""\n\n')[2]
    page = (HERE.parents[1] / "docs" / "observations.md").read_text(encoding="utf-8")
    assert code.startswith("import numpy")
    assert f"```python\n{code}```" in page
