"""Packages that only some components need: one line names the extra that brings them."""

from importlib.util import find_spec


def require_extra(what: str, extra: str, *modules: str) -> None:
    """Raises ``ValueError`` with the install command if a module of an extra is missing."""
    if missing := [name for name in modules if find_spec(name) is None]:
        raise ValueError(
            f"{what} needs packages that are not installed here ({', '.join(missing)}); install "
            f'them by: pip install "calsweep[{extra}]"'
        )
