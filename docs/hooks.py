"""What MkDocs runs while it builds these pages: pictures are drawn, and measured tables put into their places.

A page shows a picture of the folder ``made``, which exists in the built pages only, or has a line
``<!-- made: NAME -->`` where the table NAME goes.  ``python docs/hooks.py FOLDER`` writes all of them into a folder.
"""

from __future__ import annotations

import functools
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE.parent):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

# MkDocs takes the folders off the path again once this file is loaded: all is imported here.
from making import boxes, costs, coverage, gallery, pages, projection, scale, translation, vocabulary, windows  # noqa: E402

from cfagg.formats.zarr import readers  # noqa: E402
from tests.benchmarks import numerics  # noqa: E402
from tests.writing import test_peers  # noqa: E402

#: The pages whose examples draw pictures.
RUN = ("accumulation.md", "observations.md")


#: Name of a table -> what makes it.
TABLES: dict[str, Callable[[], str]] = {
    "numerics": numerics.table,
    "costs": costs.table,
    "coverage": coverage.table,
    "vocabulary": vocabulary.table,
    "survives": translation.survives,
    "translations": translation.translations,
    "peers": test_peers.table,
    "readers": readers.readers_table,
    "cases": projection.table,
}


@functools.cache
def pictures() -> dict[str, bytes]:
    """Return all pictures by name."""
    drawn = {
        "boxes.svg": boxes.draw(),
        "costs.svg": costs.draw(),
        "projection.svg": projection.draw(),
        "projection_plane.svg": projection.draw_plane(),
        "scale.svg": scale.draw(),
        "windows.svg": windows.draw(),
        **gallery.pictures(),
    }
    for page in RUN:
        with tempfile.TemporaryDirectory() as folder:
            drawn.update(pages.run((HERE / page).read_text(encoding="utf-8"), Path(folder)))
    return drawn


def on_files(files: Any, config: Any) -> Any:
    """Add the pictures to the files of the pages."""
    from mkdocs.structure.files import File

    for name, content in pictures().items():
        files.append(File.generated(config, f"made/{name}", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put tables into their places, and lines that are empty where doctest wants a word."""
    markdown = markdown.replace("\n<BLANKLINE>\n", "\n\n")
    return re.sub(r"^<!-- made: (\w+) -->$", lambda found: TABLES[found[1]](), markdown, flags=re.MULTILINE)


def on_page_content(html: str, **_: Any) -> str:
    """Mark short code within text, which is not to be broken at its hyphens, nor within a word."""
    return re.sub(r"(?<!<pre>)(?<!</span>)<code>(?=[^<]{1,28}</code>)", '<code class="whole">', html)


def main(folder: Path) -> None:
    """Write all pictures and tables into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in pictures().items():
        (folder / name).write_bytes(content)
    for name, make in TABLES.items():
        (folder / f"{name}.md").write_text(make() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "made")
