"""Short content digests."""

import hashlib


def new_digest() -> hashlib.blake2b:
    """An empty digest, for incremental updates."""
    return hashlib.blake2b(digest_size=8)


def digest_of(data: bytes) -> str:
    """The digest of some bytes, 16 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
