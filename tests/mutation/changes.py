"""The mutants of a module: its source, changed in one place each."""

from __future__ import annotations

import ast
import contextlib
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


class Mutant(NamedTuple):
    """A change in one place of a module."""

    path: str
    #: The lines from the start of the statement to the end of what is changed; a test that runs one of them may notice.
    first: int
    line: int
    last: int
    before: str
    after: str
    #: The line of the source, with which the change is found again after an edit elsewhere.
    text: str
    #: Which one it is among equal changes of equal lines.
    nth: int
    #: It is in the body of a function, and so runs when that is called, not when the module is imported.
    inside: bool
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"

    @property
    def is_guard(self) -> bool:
        """Whether the change takes a check away: its condition, its error, or the call that makes it."""
        return self.after in ("False", "pass")

    @property
    def key(self) -> str:
        """Say which change it is, whatever is edited elsewhere in the module."""
        return "|".join((self.path, self.text, self.before, self.after, str(self.nth)))

    def rank(self, seed: int) -> str:
        """Order mutants by chance, each in a place of its own whatever others there are."""
        return hashlib.sha256(f"{seed}|{self.key}".encode()).hexdigest()


def mutants(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    data = source.encode()
    lines = data.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: dict[str, Mutant] = {}
    seen: Counter[tuple[str, str, str]] = Counter()
    changes = sorted(_changes(ast.parse(source)), key=lambda change: (change[0].lineno, change[0].col_offset))
    for node, new, statement, inside in changes:
        end = node.end_lineno or node.lineno
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[end - 1] + (node.end_col_offset or 0)
        after = new if isinstance(new, str) else ast.unparse(new)
        # Every line keeps its number.  In brackets, since what was on several lines could end a statement otherwise.
        below = "\n" * (end - node.lineno)
        text = after + below if isinstance(node, ast.stmt) else f"({after}{below})"
        changed = (data[:first] + text.encode() + data[last:]).decode()
        with contextlib.suppress(SyntaxError):
            compile(changed, path, "exec")
            before = " ".join(data[first:last].decode().split())
            line = lines[node.lineno - 1].decode().strip()
            if changed not in found:
                nth = seen[line, before, after]
                seen[line, before, after] += 1
                found[changed] = Mutant(
                    path, statement, node.lineno, end, before, after, line, nth, inside, changed
                )  # fmt: skip
    return list(found.values())


_Change = tuple[ast.expr | ast.stmt, ast.AST | str, int, bool]


def _changes(tree: ast.Module) -> Iterator[_Change]:
    """Give nodes, what each could be instead, the line of its statement, and whether it is in a function.

    Types, decorators and the texts of messages stay as they are, and so does what only a type checker sees, and
    ``strict=`` of `zip`, which says that two lengths are the same by construction.
    """
    waiting: list[tuple[ast.AST, int, bool]] = [(tree, 1, False)]
    while waiting:
        node, statement, inside = waiting.pop()
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            continue
        if isinstance(node, ast.stmt):
            statement = node.lineno
        aside: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            aside = [*node.decorator_list, node.returns]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            aside = [node.annotation]
        elif isinstance(node, ast.Raise):
            yield node, "pass", statement, inside
            aside = [node.exc, node.cause]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node, "pass", statement, inside
        elif isinstance(node, ast.If):
            if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                continue
            if not node.orelse:
                yield node.test, "False", statement, inside
        for before, after in _replaced(node):
            yield before, after, statement, inside
        for name, value in ast.iter_fields(node):
            deeper = inside or (name == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
            children = value if isinstance(value, list) else [value]
            waiting.extend(
                (one, statement, deeper) for one in children if isinstance(one, ast.AST) and one not in aside
            )


def _replaced(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    new = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and isinstance(new, ast.Compare):
        for k, operator in enumerate(node.ops):
            new = copy.deepcopy(node)
            new.ops[k] = _COMPARISONS[type(operator)]()
            yield node, new
    elif isinstance(node, ast.BinOp) and isinstance(new, ast.BinOp) and type(node.op) in _ARITHMETIC:
        new.op = _ARITHMETIC[type(node.op)]()
        yield node, new
    elif isinstance(node, ast.BoolOp) and isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield node, new
        if isinstance(node.op, ast.And | ast.Or) and len(node.values) > 1:
            # One condition less: each part has to have a test of its own.
            for k in range(len(node.values)):
                rest = node.values[:k] + node.values[k + 1 :]
                yield node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node, node.operand
    elif isinstance(node, ast.IfExp) and isinstance(new, ast.IfExp):
        new.test = ast.UnaryOp(ast.Not(), new.test)
        yield node, new
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield node, ast.Constant(node.value + 1)
    elif isinstance(node, ast.Name) and node.id in _NAMES:
        yield node, ast.Name(_NAMES[node.id])
    elif isinstance(node, ast.Attribute) and isinstance(new, ast.Attribute) and node.attr in _NAMES:
        new.attr = _NAMES[node.attr]
        yield node, new
