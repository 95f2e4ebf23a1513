"""Files of objects that exist only in a program's memory, such as a function of a notebook.

``kept:<path or URI>:<label>`` is the name of such an object, and is allowed wherever a dotted path
is. The file's name contains the digest of its content, so a name always means the same object.
Reading one runs the code in it, as importing your own module does.
"""

from __future__ import annotations

import pickle
import re
from functools import lru_cache
from typing import Any

from trainables.files.digests import digest_of
from trainables.files.storage import Folder
from trainables.plugins.arguments import describe_error

_PREFIX = "kept:"
_DIGEST = re.compile(r"-([0-9a-f]{16})\.pkl$")


def is_kept(name: str) -> bool:
    """Whether a name is one that :func:`keep` gave."""
    return name.startswith(_PREFIX)


def keep(folder: Folder, value: object, label: str) -> str:
    """Write an object to a file, unless it already exists.

    What of it is in ``__main__`` or has no name goes into the file; what is in a module is reported
    by that module's name.

    Args:
        folder: Where kept objects lie.
        value: The object.
        label: What people call it: letters, digits and underscores.

    Returns:
        Its name, for :func:`load_kept`.

    Raises:
        ValueError: It holds something that no other process can have, such as an open file.
        OSError: The folder cannot be written.
    """
    import cloudpickle

    try:
        data = cloudpickle.dumps(value)
    except Exception as error:  # whatever the parts of somebody's object raise
        raise ValueError(
            f"{label} cannot be given to other processes: {describe_error(error)}"
        ) from error
    file = f"{label}-{digest_of(data)}.pkl"
    if not folder.exists(file):
        folder.write(file, data)
    return f"{_PREFIX}{(folder / file).uri}:{label}"


@lru_cache(maxsize=256)
def load_kept(name: str) -> Any:
    """The object behind a name, the same one each time.

    Raises:
        ValueError: The file is damaged.
        OSError: It cannot be read.
    """
    place = Folder(name.removeprefix(_PREFIX).rpartition(":")[0])
    data = place.read("")
    told = _DIGEST.search(place.path)
    if told is None or told[1] != digest_of(data):
        raise ValueError(f"{place.uri} is damaged")
    return pickle.loads(data)
