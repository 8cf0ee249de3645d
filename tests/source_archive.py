"""The source archive holds the whole checkout: all tests, documentation and what they need, not the few by default.

setuptools takes ``tests/test*.py`` along by itself, and nothing below, beside or after it.
"""

from __future__ import annotations

from setuptools.command.sdist import sdist

#: What stands in the archive beside the packages.
FOLDERS = (".ci", ".github", "docs", "sample_data", "tests")
FILES = (
    ".mkdocs.yml",
    ".pre-commit-config.yaml",
    ".python-version",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "pyproject.toml",
)
#: What running tests leaves behind in these folders.
LEFT_BEHIND = ("*.py[cod]", "*.nbc", "*.nbi", ".DS_Store")


class SourceArchive(sdist):
    """``sdist`` with whole folders."""

    def make_distribution(self) -> None:
        """Write the archive."""
        for folder in FOLDERS:
            self.filelist.graft(folder)
        self.filelist.extend(FILES)
        for pattern in LEFT_BEHIND:
            self.filelist.global_exclude(pattern)
        self.filelist.remove_duplicates()
        super().make_distribution()
