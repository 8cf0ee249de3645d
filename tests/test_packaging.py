"""The wheel and the source archive hold the tree, the links are sound, and nothing that installs names an address."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import cfagg

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = {"cfagg": "cfagg", "kernels": "cfagg/kernels", "conventions": "cfagg/conventions"}
LINKS = ("kernels", "conventions", "sample_data")
PINS = (ROOT / ".ci/constraints.txt").read_text(encoding="utf-8").splitlines()


def normal(name: str) -> str:
    """Return the name of a distribution as installers compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


PINNED = {normal(line.split("==")[0]) for line in PINS if not line.startswith("#")}


def modules() -> dict[str, Path]:
    """Return the path in the wheel of every module of the tree."""
    return {
        f"{inside}/{path.relative_to(ROOT / folder).as_posix()}": path
        for folder, inside in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
        if not set(path.relative_to(ROOT).parts[1:]) & set(LINKS)
    }


def samples() -> dict[str, Path]:
    """Return the path in the wheel of every sample file."""
    return {
        f"cfagg/sample_data/{path.relative_to(ROOT / 'sample_data').as_posix()}": path
        for path in (ROOT / "sample_data").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def schemas() -> dict[str, Path]:
    """Return the path in the wheel of every JSON schema."""
    return {f"cfagg/conventions/schemas/{p.name}": p for p in (ROOT / "conventions" / "schemas").glob("*.json")}


def tables() -> dict[str, Path]:
    """Return the path in the wheel of everything beside the modules that checking needs."""
    return {
        path.relative_to(ROOT).as_posix(): path
        for path in (
            *(ROOT / "cfagg" / "checking").rglob("*"),
            *(ROOT / "cfagg" / "formats").rglob("tables/*"),
            *(ROOT / "cfagg").glob("*/rules.toml"),
        )
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from a copy without links, as a checkout on a system without them has it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    for name in ("kernels", "conventions", "sample_data"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    (source / "tests").mkdir()
    shutil.copy(ROOT / "tests/source_archive.py", source / "tests")
    shutil.copytree(ROOT / "cfagg", source / "cfagg", ignore=shutil.ignore_patterns("__pycache__", *LINKS))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


@pytest.mark.full
def test_the_wheel_holds_every_module_and_sample_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    found = {n for n in wheel.namelist() if ".dist-info/" not in n}
    assert found == {*modules(), *samples(), *schemas(), *tables(), "cfagg/py.typed"}


def test_the_wheel_holds_the_same_bytes_as_the_tree(wheel: zipfile.ZipFile) -> None:
    files = {**modules(), **samples(), **schemas(), **tables()}
    assert not [name for name, path in files.items() if wheel.read(name) != path.read_bytes()]


def test_the_wheel_installs_one_top_level_name_a_command_and_an_xarray_engine(wheel: zipfile.ZipFile) -> None:
    info = f"cfagg-{cfagg.__version__}.dist-info"
    assert {n.split("/")[0] for n in wheel.namelist()} == {"cfagg", info}
    entry_points = wheel.read(f"{info}/entry_points.txt").decode()
    assert "cfagg = cfagg.cli.main:main" in entry_points
    assert "cfagg = cfagg.labelled.engine:CfaggBackendEntrypoint" in entry_points
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


def test_the_wheel_holds_the_licence_of_the_schemas(wheel: zipfile.ZipFile) -> None:
    info = f"cfagg-{cfagg.__version__}.dist-info"
    assert b"Apache License" in wheel.read(f"{info}/licenses/conventions/schemas/LICENSE")


def tracked() -> set[str]:
    """Return the names of all files of the checkout but links."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name and not (ROOT / name).is_symlink()}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tarfile.TarFile:
    """Build the source archive from a copy with what a run of the tests leaves behind."""
    folder = tmp_path_factory.mktemp("archive")
    source = folder / "source"
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    for name in ("tests/__pycache__/test_a.cpython-313.pyc", "docs/__pycache__/hooks.cpython-313.pyc", "tests/a.nbi"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).touch()
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return tarfile.open(next(folder.glob("*.tar.gz")))


@pytest.mark.full
def test_the_source_archive_holds_the_whole_checkout_and_nothing_else(archive: tarfile.TarFile) -> None:
    found = {member.name.partition("/")[2] for member in archive if member.isfile()}
    made = {n for n in found if n in ("PKG-INFO", "setup.cfg") or n.startswith("cfagg.egg-info/")}
    assert found - made == tracked() - {".gitignore"}


def test_no_dependency_is_named_twice() -> None:
    for names in (PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()):
        bare = [normal(re.split(r"[\[>=;]", name)[0]) for name in names]
        assert len(bare) == len(set(bare))


def test_readme_has_no_link_that_breaks_on_an_index_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", text) + re.findall(r"""(?:href|src)=["']([^"']+)""", text)
    assert not [t for t in targets if not re.match(r"https://|#", t)]


def test_the_hand_kept_package_list_names_every_folder_with_modules() -> None:
    folders = {str(Path(name).parent).replace("/", ".") for name in modules()}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == {*folders, "cfagg.sample_data"}


def test_every_package_folder_has_an_init_module() -> None:
    folders = {path.parent for path in modules().values()}
    assert not [f for f in folders if not (f / "__init__.py").is_file()]


@pytest.mark.parametrize("name", LINKS)
def test_a_folder_is_linked_by_a_relative_committed_link(name: str) -> None:
    assert (ROOT / "cfagg" / name).readlink() == Path(f"../{name}")
    listed = subprocess.run(
        ["git", "ls-files", "-s", f"cfagg/{name}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert listed.stdout.startswith("120000 ")


@pytest.mark.parametrize("name", ["kernels", "conventions"])
def test_a_folder_refuses_to_be_imported_by_its_bare_name(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"this folder is imported as cfagg.{name}, not as {name}" in done.stderr


def test_only_the_known_names_stand_at_the_top_level() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = {line.split("/")[0] for line in listed.stdout.splitlines()}
    allowed = {"cfagg", "kernels", "conventions", "tests", "sample_data", "docs", "pyproject.toml", "Makefile"}
    allowed |= {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "CITATION.cff"}
    assert not {n for n in names - allowed if not n.startswith(".")}


def test_every_dependency_has_a_lower_bound_and_a_pin() -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    needed = [*PROJECT["project"]["dependencies"], *(n for names in extras for n in names)]
    needed = [n for n in needed if not n.startswith("cfagg[")]
    assert not [n for n in needed if ">=" not in n]
    names = {normal(re.split(r"[\[>=]", n)[0]) for n in needed}
    assert not names - PINNED


def test_pins_are_exact_and_without_hashes_or_addresses() -> None:
    assert not [line for line in PINS if not re.fullmatch(r"#.*|[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+", line)]


@pytest.mark.parametrize(
    "name",
    [
        "Makefile",
        "pyproject.toml",
        ".ci/run",
        ".ci/constraints.txt",
        ".github/workflows/ci.yml",
        ".pre-commit-config.yaml",
        ".mkdocs.yml",
    ],
)
def test_what_installs_and_builds_names_no_address(name: str) -> None:
    assert not re.search(r"[a-z]+://|index-url|git@", (ROOT / name).read_text(encoding="utf-8"))


def test_the_version_is_the_newest_released_of_the_changelog() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert next(h for h in headings if h != "Unreleased") == cfagg.__version__
    assert "Unreleased" not in headings[1:]
