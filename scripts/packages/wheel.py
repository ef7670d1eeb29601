"""Packs a folder of installed files into a wheel, the same byte for byte each time.

    wheel.py STAGE FOLDER VERSION PLATFORM README

STAGE has the files as `pip` installs them below the folder of an environment: `bin`, `lib` and
`share`; files in `licenses` go where pip keeps them. The wheel goes into FOLDER; its name is
printed.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path

NAME = "quarry-malloc"
SUMMARY = "Quarry, a malloc that gives memory back: the command and the library, for Linux"

stage, folder, version, platform, readme = sys.argv[1:]
named = f"{NAME.replace('-', '_')}-{version}"
tag = f"py3-none-{platform}"
info = f"{named}.dist-info"


def place(file):
    """Where the wheel has a file of the stage."""
    if file.parts[0] == "licenses":
        return f"{info}/{file}"
    if file.parts[0] == "bin":
        return f"{named}.data/scripts/{file.relative_to('bin')}"
    return f"{named}.data/data/{file}"


def field(file, data):
    """A line of RECORD: the format of the binary distribution format of packaging.python.org."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{file},sha256={digest},{len(data)}\n"


files = {
    place(file.relative_to(stage)): (file.read_bytes(), os.access(file, os.X_OK))
    for file in Path(stage).rglob("*")
    if file.is_file()
}
licences = sorted(Path(file).name for file in files if f"{info}/licenses/" in file)
metadata = [
    ("Metadata-Version", "2.4"),
    ("Name", NAME),
    ("Version", version),
    ("Summary", SUMMARY),
    ("License-Expression", "MIT OR Apache-2.0"),
    *(("License-File", name) for name in licences),
    ("Requires-Python", ">=3.8"),
    ("Description-Content-Type", "text/markdown"),
]
wheel = [
    ("Wheel-Version", "1.0"),
    ("Generator", f"quarry {version}"),
    ("Root-Is-Purelib", "false"),
    ("Tag", tag),
]
for name, fields, body in [("METADATA", metadata, Path(readme).read_text()), ("WHEEL", wheel, "")]:
    head = "".join(f"{key}: {value}\n" for key, value in fields)
    files[f"{info}/{name}"] = (f"{head}\n{body}" if body else head).encode(), False
record = "".join(field(file, data) for file, (data, _) in sorted(files.items()))
files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode(), False

# A zip archive has no time before 1980, and counts in steps of two seconds.
moment = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
target = Path(folder) / f"{named}-{tag}.whl"
with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    # The format recommends that the metadata be last.
    for file, (data, runs) in sorted(files.items(), key=lambda it: (it[0].startswith(info), it[0])):
        entry = zipfile.ZipInfo(file, moment)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if runs else 0o100644) << 16
        archive.writestr(entry, data)
print(target)
