"""Takes py3Fdfs through the cases that it can do: `cases.py HOST PORT SLICES FOLDER MOVED_PORT MOVED`.

Prints one JSON text a line: how a case ended, and the files it has left in the storage.
"""

import hashlib
import json
import os
import sys

from fdfs_client.client import Fdfs_client
from fdfs_client.exceptions import DataError

HOST, PORT, SLICES, FOLDER, MOVED_PORT, MOVED = sys.argv[1:]


def connect(host, port):
    return Fdfs_client(
        {"host_tuple": (host,), "port": int(port), "timeout": 30, "name": "Tracker Pool"}
    )


client = connect(HOST, PORT)
moved_client = connect("127.0.0.1", MOVED_PORT)


def download(file_id, of=client):
    return of.download_to_buffer(file_id)["Content"]


def upload(content, extension="bin"):
    return client.upload_by_buffer(content, file_ext_name=extension)["Remote file_id"]


def appender(content):
    reply = client.upload_appender_by_buffer(content, file_ext_name="log")
    return reply["Remote file_id"]


def kept(file_id, content):
    print(json.dumps({"kept": file_id.decode(), "sha256": hashlib.sha256(content).hexdigest()}))


def same(file_id, content):
    assert download(file_id) == content, "the bytes differ"


def refused(call):
    try:
        call()
    except DataError:
        return
    raise AssertionError("it was not refused")


def slices(path=SLICES):
    with open(path, encoding="utf8") as lines:
        for line in lines:
            file_id, path = line.rstrip("\n").split(" ", 1)
            with open(path, "rb") as file:
                yield file_id.encode(), file.read()


def upload_case():
    content = os.urandom(1000)
    file_id = upload(content, "jpg")
    same(file_id, content)
    kept(file_id, content)


def large():
    content = os.urandom(3_000_000)
    file_id = upload(content)
    same(file_id, content)
    kept(file_id, content)


def empty():
    path = os.path.join(FOLDER, "empty.txt")
    open(path, "w").close()
    kept(client.upload_by_filename(path)["Remote file_id"], b"")


def delete():
    file_id = upload(os.urandom(10))
    client.delete_file(file_id)
    refused(lambda: client.delete_file(file_id))
    refused(lambda: download(file_id))


def append():
    first, second = os.urandom(1000), os.urandom(500_000)
    file_id = appender(first)
    client.append_by_buffer(second, file_id)
    same(file_id, first + second)
    kept(file_id, first + second)


def modify():
    content, patch = os.urandom(1000), os.urandom(100)
    file_id = appender(content)
    client.modify_by_buffer(patch, file_id)
    same(file_id, patch + content[100:])
    kept(file_id, patch + content[100:])


def truncate():
    content = os.urandom(1000)
    file_id = appender(content)
    client.truncate_file(400, file_id)
    same(file_id, content[:400])
    kept(file_id, content[:400])


def slice_read():
    for file_id, content in slices():
        same(file_id, content)


def forged_slice():
    file_id, _ = next(slices())
    at = file_id.rindex(b".") - 4
    other = b"C" if file_id[at : at + 1] == b"B" else b"B"
    refused(lambda: download(file_id[:at] + other + file_id[at + 1 :]))


def moved_read():
    for file_id, content in slices(MOVED):
        assert download(file_id, moved_client) == content, "the bytes differ"


def moved_delete():
    *_, (file_id, _) = slices(MOVED)
    moved_client.delete_file(file_id)
    refused(lambda: moved_client.delete_file(file_id))
    refused(lambda: download(file_id, moved_client))


for name, case in {
    "upload": upload_case,
    "large": large,
    "empty": empty,
    "delete": delete,
    "append": append,
    "modify": modify,
    "truncate": truncate,
    "sliceRead": slice_read,
    "forgedSlice": forged_slice,
    "movedRead": moved_read,
    "movedDelete": moved_delete,
}.items():
    error = None
    try:
        case()
    except Exception as problem:
        error = repr(problem)
    print(json.dumps({"case": name, "error": error}))
