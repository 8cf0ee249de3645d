"""What a disk may hold after a power loss, from the record of a run.

Names and data are followed separately, by inode.  Data are safe once the file, or its file system, was synced; a change
of names is safe once every directory that it concerns was.  What is not safe may be there or not, in any combination:
a change of names without the data, later changes without earlier ones.  Data that are not safe are as before, absent,
zeros, cut short or whole.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

#: The extended attribute by which a directory names the build that made it.
_BUILD = "user.cfagg.build"


class Inode:
    """A file or directory."""

    count = 0

    def __init__(self, *, directory: bool, origin: tuple[int, int] | None = None) -> None:
        Inode.count += 1
        self.number = Inode.count
        self.directory = directory
        self.entries: dict[str, Inode] = {}
        self.data = b""
        self.link: str | None = None
        #: Device-independent identity of what was there before, and has not been written.
        self.origin = origin
        self.safe: bytes = b""
        #: For the mark of a work directory: which inode it names.
        self.names: Inode | None = None
        #: The extended attribute that names a build, and what of it is safe.
        self.build: bytes | None = None
        self.safe_build: bytes | None = None


@dataclass
class Change:
    """A change of names: what to remove and what to add, by directory."""

    removed: list[tuple[Inode, str, Inode]]
    added: list[tuple[Inode, str, Inode]]
    unsafe: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.unsafe = {d.number for d, _, _ in (*self.removed, *self.added)}

    def apply(self, names: dict[int, dict[str, Inode]]) -> None:
        for folder, name, inode in self.removed:
            here = names.setdefault(folder.number, {})
            if here.get(name) is inode:
                del here[name]
        for folder, name, inode in self.added:
            names.setdefault(folder.number, {})[name] = inode


_LINE = re.compile(rb"^(\d+) +(.*)$")
_HEX = re.compile(rb"\\x([0-9a-f]{2})")


def _text(raw: bytes) -> bytes:
    return _HEX.sub(lambda m: bytes([int(m[1], 16)]), raw)


_ARGUMENT = re.compile(
    rb'\s*(?:"((?:\\x[0-9a-f]{2})*)"(?:\.\.\.)?|(-?\w+)<((?:\\x[0-9a-f]{2}|[^>])*)>(?:\(deleted\))?|([^,"]+))'
)


def calls(log: pathlib.Path) -> Iterator[tuple[bytes, list[tuple[str, bytes, bytes]], int, bytes]]:
    """Give every successful call of a log: its name, arguments, result, and the path of a descriptor it returned."""
    begun: dict[bytes, bytes] = {}
    for raw in log.read_bytes().split(b"\n"):
        match = _LINE.match(raw)
        if not match:
            continue
        thread, rest = match[1], match[2]
        if rest.startswith(b"<... "):
            rest = begun.pop(thread, b"") + rest.partition(b" resumed>")[2]
        if rest.endswith(b"<unfinished ...>"):
            begun[thread] = rest[: -len(b"<unfinished ...>")]
            continue
        name, _, tail = rest.partition(b"(")
        body, _, result = tail.rpartition(b") = ") if b") = " in tail else tail.rpartition(b")  = ")
        if not body:
            body, _, result = tail.rpartition(b"= ")
            body = body.rstrip().removesuffix(b")")
        value = result.strip().split(b" ")[0]
        number, _, path = value.partition(b"<")
        if not re.fullmatch(rb"\d+", number):
            continue
        arguments = []
        for m in _ARGUMENT.finditer(body):
            if m[1] is not None:
                arguments.append(("text", _text(m[1]), b""))
            elif m[2] is not None:
                arguments.append(("file", m[2], _text(m[3]) + (b" (deleted)" if m[0].endswith(b"(deleted)") else b"")))
            elif m[4].strip():
                arguments.append(("word", m[4].strip(), b""))
        yield name, arguments, int(number), _text(path.rstrip(b">"))


class Disk:
    """A directory tree with what is safe of it, followed through the calls of a run."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = os.fsencode(os.path.realpath(root))
        self.top = self._load(pathlib.Path(os.fsdecode(self.root)))
        self.pending: list[Change] = []
        self.safe_names: dict[int, dict[str, Inode]] = {}
        self._settle_all()
        self._place: dict[tuple[bytes, bytes], int] = {}
        #: Counts what may differ after a power loss.
        self.version = 0

    def _load(self, path: pathlib.Path) -> Inode:
        state = path.lstat()
        if path.is_symlink():
            node = Inode(directory=False, origin=(state.st_ino, state.st_mtime_ns))
            node.link = str(path.readlink())
        elif path.is_dir():
            node = Inode(directory=True)
            node.entries = {p.name: self._load(p) for p in path.iterdir()}
            node.build = node.safe_build = _build(path)
        else:
            node = Inode(directory=False, origin=(state.st_ino, state.st_mtime_ns))
            node.data = node.safe = path.read_bytes()
        return node

    def _walk(self, node: Inode) -> Iterator[Inode]:
        yield node
        for child in node.entries.values():
            yield from self._walk(child)

    def _settle_all(self) -> None:
        for node in self._walk(self.top):
            node.safe, node.safe_build = node.data, node.build
            if node.directory:
                self.safe_names[node.number] = dict(node.entries)
        self.pending.clear()

    def _find(self, path: bytes) -> tuple[Inode | None, str, Inode | None]:
        """Return the directory, the name and the inode of a path; the first is None where it lies outside."""
        path = os.path.normpath(path)
        if path != self.root and not path.startswith(self.root + b"/"):
            return None, "", None
        if path == self.root:
            return None, "", self.top
        node = self.top
        parts = os.fsdecode(path[len(self.root) + 1 :]).split("/")
        for part in parts[:-1]:
            child = node.entries.get(part)
            if child is None or not child.directory:
                return None, "", None
            node = child
        return node, parts[-1], node.entries.get(parts[-1])

    def _change(self, removed: list, added: list) -> None:
        change = Change(removed, added)
        for folder, name, inode in removed:
            if folder.entries.get(name) is inode:
                del folder.entries[name]
        for folder, name, inode in added:
            folder.entries[name] = inode
        self.pending.append(change)
        self.version += 1

    def _path(self, arguments: list, i: int) -> bytes:
        """Return the path of a call with or without a directory's descriptor, whose index is `i`."""
        kind, value, path = arguments[i]
        if kind == "text":
            return value
        name = arguments[i + 1][1]
        return name if name.startswith(b"/") else path + b"/" + name

    def follow(self, name: bytes, arguments: list, result: int, path: bytes) -> None:
        """Take note of a call."""
        if name in (b"open", b"openat", b"creat"):
            flags = b" ".join(a[1] for a in arguments if a[0] == "word")
            folder, base, inode = self._find(path)
            if folder is None or not base:
                return
            if inode is None:
                if b"O_CREAT" not in flags and name != b"creat":
                    return
                inode = Inode(directory=False)
                self._change([], [(folder, base, inode)])
            elif b"O_TRUNC" in flags or name == b"creat":
                self._write(inode, b"", base, folder)
            self._place[path, b""] = 0
        elif name in (
            b"write",
            b"pwrite64",
            b"writev",
            b"pwritev",
            b"ftruncate",
            b"fallocate",
            b"sendfile",
            b"copy_file_range",
        ):
            self._data(name, arguments, result)
        elif name == b"lseek":
            self._place[arguments[0][2], b""] = result
        elif name in (b"mkdir", b"mkdirat"):
            folder, base, _ = self._find(self._path(arguments, 0))
            if folder is not None:
                self._change([], [(folder, base, Inode(directory=True))])
        elif name in (b"unlink", b"unlinkat", b"rmdir"):
            folder, base, inode = self._find(self._path(arguments, 0))
            if folder is not None and inode is not None:
                self._change([(folder, base, inode)], [])
        elif name in (b"rename", b"renameat", b"renameat2"):
            old = self._path(arguments, 0)
            new = self._path(arguments, 1 if name == b"rename" else 2)
            self._rename(old, new, exchange=any(b"RENAME_EXCHANGE" in a[1] for a in arguments))
        elif name in (b"link", b"linkat"):
            _, _, inode = self._find(self._path(arguments, 0))
            folder, base, _ = self._find(self._path(arguments, 1 if name == b"link" else 2))
            if folder is not None and inode is not None:
                self._change([], [(folder, base, inode)])
        elif name == b"setxattr":
            _, _, inode = self._find(arguments[0][1])
            if inode is not None and arguments[1][1] == _BUILD.encode():
                inode.build = arguments[2][1]
                self.version += 1
        elif name in (b"fsync", b"fdatasync"):
            _, _, inode = self._find(arguments[0][2])
            if inode is not None:
                self._sync(inode)
        elif name == b"syncfs":
            for change in self.pending:
                change.apply(self.safe_names)
            self._settle_all()
            self.version += 1

    def _rename(self, old: bytes, new: bytes, *, exchange: bool) -> None:
        a, name, inode = self._find(old)
        b, other, replaced = self._find(new)
        if a is None or b is None or inode is None:
            assert a is None, (old, new)  # nothing is moved in from outside
            return
        removed, added = [(a, name, inode)], [(b, other, inode)]
        if replaced is not None:
            removed.append((b, other, replaced))
        if exchange:
            assert replaced is not None
            added.append((a, name, replaced))
        self._change(removed, added)

    def _sync(self, inode: Inode) -> None:
        inode.safe, inode.safe_build = inode.data, inode.build
        if inode.directory:
            left = []
            for change in self.pending:
                change.unsafe.discard(inode.number)
                if change.unsafe:
                    left.append(change)
                else:
                    change.apply(self.safe_names)
            self.pending = left
        self.version += 1

    def _data(self, name: bytes, arguments: list, result: int) -> None:
        path = arguments[0][2]
        folder, base, inode = self._find(path)
        if inode is None or inode.directory or path.endswith(b"(deleted)"):
            return
        words = [int(a[1], 0) for a in arguments if a[0] == "word" and re.fullmatch(rb"-?\d+", a[1])]
        data = inode.data
        if name == b"ftruncate":
            data = data[: words[0]].ljust(words[0], b"\0")
        elif name == b"fallocate":
            data = data.ljust(words[-1] + words[-2], b"\0")
        elif name in (b"sendfile", b"copy_file_range"):
            source = next(a[2] for a in arguments[1:] if a[0] == "file")
            at = self._place.get((path, b""), len(data))
            given = next((int(m[1]) for a in arguments if (m := re.match(rb"\[(\d+)\]", a[1]))), None)
            start = given if given is not None else self._place.get((source, b"copied"), 0)
            found = (
                pathlib.Path(os.fsdecode(source)).read_bytes()
                if self._find(source)[2] is None
                else self._find(source)[2].data
            )
            piece = found[start : start + result]
            data = data[:at].ljust(at, b"\0") + piece + data[at + len(piece) :]
            self._place[path, b""] = at + len(piece)
            self._place[source, b"copied"] = start + result
        else:
            piece = b"".join(a[1] for a in arguments[1:] if a[0] == "text")[:result]
            at = words[-1] if name.startswith(b"p") else self._place.get((path, b""), len(data))
            data = data[:at].ljust(at, b"\0") + piece + data[at + len(piece) :]
            if not name.startswith(b"p"):
                self._place[path, b""] = at + len(piece)
        self._write(inode, data, base, folder)

    def _write(self, inode: Inode, data: bytes, base: str, folder: Inode | None) -> None:
        inode.data, inode.origin = data, None
        if base == "done" and folder is not None:
            inode.names = folder.entries.get("store") or folder.entries.get("group")
        self.version += 1

    # -----------------------------------------------------------------------------------------------------------------

    def images(self, chance: random.Random, more: int) -> Iterator[Image]:
        """Give trees that may be found after a power loss now: nothing more than is safe, all names, and mixtures."""
        yield self._image(chance, 0.0, "safe")
        yield self._image(chance, 1.0, "safe")
        for _ in range(more):
            yield self._image(chance, chance.random(), "any")

    def _image(self, chance: random.Random, share: float, data: str) -> Image:
        names = {k: dict(v) for k, v in self.safe_names.items()}
        for change in self.pending:
            if share and (share == 1.0 or chance.random() < share):
                change.apply(names)
        return Image(self, names, data, chance)


class Image:
    """One tree that may be found."""

    def __init__(self, disk: Disk, names: dict[int, dict[str, Inode]], data: str, chance: random.Random) -> None:
        self.disk = disk
        self.files: dict[str, tuple[Inode, bytes]] = {}
        self.folders: list[str] = []
        self.builds: dict[str, bytes] = {}
        self.places: dict[int, str] = {}
        #: As it is now: the run goes on before the image is written.
        self.origins: dict[str, tuple[int, int] | None] = {}
        self.marks: dict[str, Inode] = {}
        self._choice: dict[int, bytes] = {}
        self._collect(disk.top, "", names, data, chance, frozenset())

    def _collect(self, node: Inode, path: str, names: dict, data: str, chance: random.Random, above: frozenset) -> None:
        self.places[node.number] = path
        for name, child in sorted(names.get(node.number, {}).items()):
            place = f"{path}/{name}" if path else name
            if child.directory:
                if child.number in above:
                    continue  # a directory cannot be in itself
                self.folders.append(place)
                build = child.safe_build if data == "safe" else chance.choice([child.build, child.safe_build])
                if build is not None:
                    self.builds[place] = build
                self._collect(child, place, names, data, chance, above | {node.number, child.number})
            else:
                if child.number not in self._choice:
                    self._choice[child.number] = self._content(child, data, chance)
                content = self._choice[child.number]
                self.files[place] = (child, content)
                self.origins[place] = child.origin
                if child.names is not None and content and content == child.data:
                    self.marks[place] = child.names

    @staticmethod
    def _content(inode: Inode, data: str, chance: random.Random) -> bytes:
        if data == "safe" or inode.data == inode.safe:
            return inode.safe
        half = inode.data[: len(inode.data) // 2]
        return chance.choice([inode.safe, inode.data, b"", b"\0" * len(inode.data), half])

    def key(self) -> int:
        """Return what tells it from others."""
        return hash(
            (tuple(self.folders), tuple(self.builds.items()), tuple((p, c) for p, (_, c) in self.files.items()))
        )

    def write(self) -> None:
        """Make the directory of the run look so; files that were never written stay the files they are."""
        root = pathlib.Path(os.fsdecode(self.disk.root))
        wanted = set(self.folders)
        for folder, folders, files in os.walk(root, topdown=False):
            for path in (pathlib.Path(folder, name) for name in (*files, *folders)):
                if not os.path.lexists(path) or (path.is_dir() and not path.is_symlink()):
                    continue
                state = path.lstat()
                if self.origins.get(str(path.relative_to(root))) != (state.st_ino, state.st_mtime_ns):
                    path.unlink()
            if folder != str(root) and str(pathlib.Path(folder).relative_to(root)) not in wanted:
                shutil.rmtree(folder)
        for folder in self.folders:
            (root / folder).mkdir(exist_ok=True)
            _set_build(root / folder, self.builds.get(folder))
        marks = []
        for name, (inode, content) in self.files.items():
            path = root / name
            if path.is_symlink() or path.exists():
                continue
            if inode.link is not None:
                path.symlink_to(inode.link)
            elif name in self.marks:
                marks.append((path, self.marks[name]))
                path.touch()
            else:
                path.write_bytes(content)
        for path, product in marks:
            place = self.places.get(product.number)
            state = (root / place).stat() if place is not None and (root / place).exists() else None
            path.write_text("1 1" if state is None else f"{state.st_ino} {state.st_mtime_ns}")


def _build(path: pathlib.Path) -> bytes | None:
    try:
        return os.getxattr(path, _BUILD)
    except OSError:
        return None


def _set_build(path: pathlib.Path, build: bytes | None) -> None:
    with contextlib.suppress(OSError):
        if build is None:
            os.removexattr(path, _BUILD)
        else:
            os.setxattr(path, _BUILD, build)
