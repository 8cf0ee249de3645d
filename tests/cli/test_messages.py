"""Messages of the library, as the command prints them: every keyword of Python that is an option is named as one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import cfagg
from cfagg.cli import main as cli
from cfagg.cli.messages import KEYWORDS, as_options

HOME = Path(cfagg.__file__).parent
ROOMS = sorted({p.parent.relative_to(HOME).parts[0] if p.parent != HOME else "." for p in HOME.rglob("*.py")} - {"cli"})

#: Keywords that messages name and that no command has an option for: only Python calls lead there.
ONLY_IN_PYTHON = frozenset(
    [
        "access_key_id",
        "authorize_virtual_chunk_access",
        "axis",
        "by",
        "chunk",
        "columns",
        "dates",
        "decode_coords",
        "decode_times",
        "drop",
        "drop_variables",
        "end",
        "feature",
        "form",
        "mask_and_scale",
        "options",
        "out",
        "rename",
        "reorder",
        "sample",
        "secret_access_key",
        "size",
        "start",
        "storage_options",
        "time",
        "time_unit",
        "use_cftime",
        "vertical",
    ]
)
#: What looks alike and is something else: markup, formula terms, commands of GitHub.
NO_MESSAGES = re.compile(r"<\w|::|\?xml|transform=|=(number|length|pressure|either)\b")
KEYWORD = re.compile(r"(?<![\w.%?&{-])([a-z][a-z_]+)=(?!=)")
#: A line that may hold such a text: most modules have none, and need no parsing.
QUOTED = re.compile(rf""""[^"\n]*{KEYWORD.pattern}""")


def literal(node: ast.AST) -> str | None:
    """Return a text as a reader sees it, with an `x` for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [
            (v.value if isinstance(v, ast.Constant) else "'x'" if v.conversion == 114 else "x") for v in node.values
        ]
        return "".join(map(str, parts))
    return None


@cache
def messages(room: str) -> list[str]:
    """Return the texts of a room's modules that name a keyword."""
    found = []
    for path in (HOME / room).glob("*.py") if room == "." else (HOME / room).rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if not QUOTED.search(source):
            continue
        tree = ast.parse(source)
        skipped = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
        skipped |= {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        texts = [literal(node) for node in ast.walk(tree) if id(node) not in skipped]
        found += [t for t in texts if t and " " in t.strip() and KEYWORD.search(t) and not NO_MESSAGES.search(t)]
    return found


def options() -> set[str]:
    """Return the long options of all commands."""

    def of(parser):
        found = {option for action in parser._actions for option in action.option_strings}
        for action in parser._actions:
            if isinstance(action, cli.argparse._SubParsersAction):
                found = found.union(*(of(p) for p in action.choices.values()))
        return found

    return of(cli._parser([], every=True))


@pytest.mark.parametrize("room", ROOMS)
def test_messages_of_a_room_name_no_keyword_that_is_an_option(room):
    left = {
        m: set(KEYWORD.findall(re.sub(r"-option \w+=", "", as_options(m)))) - ONLY_IN_PYTHON for m in messages(room)
    }
    assert {message: found for message, found in left.items() if found} == {}


def test_the_rooms_with_most_messages_are_looked_through():
    assert all(messages(room) for room in ("accumulation", "arrays", "conversion", "observations", "storage"))


def test_every_keyword_that_is_renamed_is_an_option_of_some_command():
    named = {re.match(r"(?:no )?(--[a-z-]+)", as_options(f"{keyword}=True"))[1] for keyword in KEYWORDS}
    assert named - options() == set()


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("pass overwrite=True (--overwrite) to replace it", "pass --overwrite to replace it"),
        ("pass overwrite=True to replace it", "pass --overwrite to replace it"),
        ("pass allow=['a', 'b']", "pass --allow a --allow b"),
        ("pass allow=['/a b', '/$c']", "pass --allow '/a b' --allow '/$c'"),
        ("name them with variables=", "name them with --variable"),
        ("pass chunks=None", "pass no --chunks"),
        ("give a Dask client=", "give a Dask --dask"),
        ("area=(70, -10, 30, 40) is", "--area 70,-10,30,40 is"),
        ("weights='area' needs", "--weights area needs"),
        ("give keys as options=", "give keys as --storage-option"),
        ("give keys as target_options=", "give keys as --target-option"),
        ("it takes no storage_options; found", "it takes no --storage-option; found"),
        ("pass storage_options={'headers': {…}}", "pass --storage-option headers.NAME=…"),
        ("pass storage_options={'skip_signature': True}", "pass --storage-option skip_signature=true"),
        ("level == 3, store?select=3, x.weights=2", "level == 3, store?select=3, x.weights=2"),
        ("/data/level=850/a.nc, level=850", "/data/level=850/a.nc, --level 850"),
    ],
)
def test_a_keyword_becomes_its_option(message, shown):
    assert as_options(message) == shown


@pytest.mark.parametrize("value", ["nan", "-1.0", "1e-05", "-inf", "0.5", "-3"])
def test_a_number_stands_apart_from_its_option(value):
    assert as_options(f"rtol={value}: expected a number that is not negative").startswith(f"--rtol {value}: ")
