"""Ray starts this file on the nodes of tests where it would start its own ``setup_worker.py``.

The worker is forked from the node's process; see ``trainables/wrappers/forked_workers.py``.
"""

import json
import os
import shlex
import sys

from trainables.wrappers.forked_workers import launch

_CONTEXT = "--serialized-runtime-env-context="


def in_its_folder(argument: str) -> str:
    """Go to the working folder that Ray asks for; returns the argument without it."""
    if not argument.startswith(_CONTEXT):
        return argument
    context = json.loads(argument.removeprefix(_CONTEXT))
    match context.get("command_prefix"):
        case ["cd", folder, "&&"]:
            os.chdir(*shlex.split(folder))
            context["command_prefix"] = []
    return _CONTEXT + json.dumps(context)


if __name__ == "__main__":
    launch([in_its_folder(argument) for argument in sys.argv[1:]])
