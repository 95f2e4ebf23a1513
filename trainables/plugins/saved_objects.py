"""Files of objects that exist only in memory, such as a function in a notebook.

``kept:<path or URI>:<label>`` is the name of such an object, and is allowed wherever a dotted path
is. The file name contains the digest of the content, so a name always refers to the same object.
Loading an object runs its code, like importing a module.
"""

import pickle
import re
from functools import lru_cache
from typing import Any

from trainables.files.storage import Folder, digest_of
from trainables.plugins.arguments import describe_error

_PREFIX = "kept:"
_DIGEST = re.compile(r"-([0-9a-f]{16})\.pkl$")


def is_kept(name: str) -> bool:
    """Whether a name is one that :func:`keep` returns."""
    return name.startswith(_PREFIX)


def keep(folder: Folder, value: object, label: str) -> str:
    """Writes an object to a file, unless it exists; returns its name for :func:`load_kept`.

    Parts that are defined in ``__main__`` or have no name are stored by value, parts of importable
    modules by reference. ``label`` has letters, digits and underscores. Raises ``ValueError`` if a
    part cannot be pickled, such as an open file; ``OSError`` if the folder cannot be written.
    """
    import cloudpickle

    try:
        data = cloudpickle.dumps(value)
    except Exception as error:  # parts of a user's object may raise anything
        raise ValueError(
            f"{label} cannot be given to other processes: {describe_error(error)}"
        ) from error
    file = f"{label}-{digest_of(data)}.pkl"
    if not folder.exists(file):
        folder.write(file, data)
    return f"{_PREFIX}{(folder / file).uri}:{label}"


@lru_cache(maxsize=256)
def load_kept(name: str) -> Any:
    """The saved object with this name; ``ValueError`` if the file is damaged."""
    place = Folder(name.removeprefix(_PREFIX).rpartition(":")[0])
    data = place.read("")
    if (match := _DIGEST.search(place.path)) is None or match[1] != digest_of(data):
        raise ValueError(f"{place.uri} is damaged")
    return pickle.loads(data)
