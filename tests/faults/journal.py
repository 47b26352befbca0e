"""What a disk may hold after the power is lost: replays the operations that the shim logged, as two kinds of file
system promise to keep them.

strict    POSIX and no more: a file's data is safe once the file was synced, a folder's entry once the folder was; of
          all else any part may be there.
ordered   A journal, as ext4's: entries change in the order of the operations, and a sync of anything makes all
          earlier ones safe; data that was not synced may be there up to any byte.
"""

import os
import struct

HEAD = struct.Struct("<12siqIII")


def read_log(path):
    """The operations in their order: (name, descriptor, number, path, target, data)."""
    log, at, operations = path.read_bytes(), 0, []
    while at < len(log):
        name, descriptor, number, *sizes = HEAD.unpack_from(log, at)
        at += HEAD.size
        parts = []
        for size in sizes:
            parts.append(log[at:at + size])
            at += size
        operations.append((name.rstrip(b"\0").decode(), descriptor, number, parts[0].decode(), parts[1].decode(), parts[2]))
    return operations


class File:
    def __init__(self, data=b""):
        self.safe, self.pending, self.end = data, [], len(data)

    def write(self, offset, data):
        self.pending.append((offset, data))
        self.end = max(self.end, offset + len(data))

    def sync(self):
        self.safe, self.pending = self.after(self.pending), []

    def after(self, writes):
        data = bytearray(self.safe)
        for offset, part in writes:
            if part is None:  # cut or extended
                data = data[:offset].ljust(offset, b"\0")
                continue
            data = data.ljust(offset, b"\0")
            data[offset:offset + len(part)] = part
        return bytes(data)


class Folder:
    def __init__(self):
        self.safe, self.now, self.pending = {}, {}, []

    def change(self, when, changes):
        """`changes`: {name: the new node, or None}, which happen together."""
        self.pending.append((when, changes))
        apply(self.now, changes)

    def sync(self):
        self.safe, self.pending = dict(self.now), []


def apply(entries, changes):
    for name, node in changes.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class Disk:
    """All files below `top`, with what is safe of them."""

    def __init__(self, top, copied_from):
        self.top, self.root, self.open, self.when, self.committed = str(top), Folder(), {}, 0, 0
        self.load(self.root, copied_from)

    def load(self, folder, path):
        for entry in os.scandir(path):
            node = Folder() if entry.is_dir() else File(open(entry.path, "rb").read())
            if entry.is_dir():
                self.load(node, entry.path)
            folder.now[entry.name] = node
        folder.sync()

    def place(self, path):
        """The folder that `path` lies in, and its name there."""
        folder, (*parents, name) = self.root, path[len(self.top):].strip("/").split("/")
        for parent in parents:
            folder = folder.now[parent]
        return folder, name

    def node(self, path):
        if path.rstrip("/") == self.top:
            return self.root
        folder, name = self.place(path)
        return folder.now[name]

    def do(self, name, descriptor, number, path, target, data):
        self.when += 1
        if name in ("create", "mkdir", "unlink", "rmdir"):
            folder, entry = self.place(path)
            node = {"create": File, "mkdir": Folder}.get(name, lambda: None)()
            folder.change(self.when, {entry: node})
        if name in ("open", "create"):
            node = self.node(path)
            if number & os.O_TRUNC and isinstance(node, File):
                node.pending.append((0, None))
                node.end = 0
            self.open[descriptor] = [node, 0, bool(number & os.O_APPEND)]
        elif name == "write":
            node, at, appends = self.open[descriptor]
            offset = number if number >= 0 else node.end if appends else at
            node.write(offset, data)
            if number < 0:
                self.open[descriptor][1] = offset + len(data)
        elif name == "ftruncate":
            node = self.open[descriptor][0]
            node.pending.append((number, None))
            node.end = number
        elif name == "rename":
            (source, old), (folder, new) = self.place(path), self.place(target)
            node = source.now[old]
            if source is folder:
                folder.change(self.when, {old: None, new: node})
            else:
                source.change(self.when, {old: None})
                folder.change(self.when, {new: node})
        elif name == "fsync":
            self.open[descriptor][0].sync()
            self.committed = self.when
        elif name == "close":
            self.open.pop(descriptor, None)

    def write_survivors(self, to, chance, model):
        """Writes what survives into the folder `to`; `chance` is "none" of what is not safe, "all" of it, or a random
        number generator that chooses."""
        if chance == "none":
            limit = self.committed
        elif chance == "all":
            limit = self.when
        else:
            limit = chance.randint(self.committed, self.when)
        self.survive(self.root, to, chance, model, limit)

    def survive(self, folder, to, chance, model, limit):
        entries = dict(folder.safe)
        for when, changes in folder.pending:
            if when <= limit if model == "ordered" else survives(chance):
                apply(entries, changes)
        for name, node in entries.items():
            if isinstance(node, Folder):
                (to / name).mkdir(exist_ok=True)
                self.survive(node, to / name, chance, model, limit)
            else:
                (to / name).write_bytes(node.after(surviving_writes(node.pending, chance, model)))


def survives(chance):
    return chance == "all" or (chance != "none" and chance.random() < 0.5)


def surviving_writes(pending, chance, model):
    if chance in ("none", "all"):
        return pending if chance == "all" else []
    if model == "ordered":
        kept = pending[:chance.randint(0, len(pending))]
    else:
        kept = [write for write in pending if survives(chance)]
    if kept and kept[-1][1] and survives(chance):  # the last one in part
        offset, data = kept[-1]
        kept = kept[:-1] + [(offset, data[:chance.randint(0, len(data))])]
    return kept
