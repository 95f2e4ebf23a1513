"""Which pretrained network of this machine's caches a draft proposes to freeze."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from huggingface_hub import CachedRepoInfo

MOST: Final = 20_000
"""With fewer images or texts, heads on a frozen network are proposed."""
_WEIGHTS: Final = ("model.safetensors", "pytorch_model.bin")
_TOKENIZER: Final = ("tokenizer.json", "tokenizer_config.json")


def frozen_network(kind: str) -> tuple[str, dict[str, object]] | None:
    """The model for samples of a kind, and the options of ``dataset`` that it needs.

    It is the network with weights in the cache of Hugging Face, where timm has its own, too, that
    was used last; None if there is none, or none for this kind.
    """
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repos = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        return None
    found = [repo for repo in repos if _fits(repo, kind)]
    if not found:
        return None
    name = max(found, key=lambda repo: repo.last_accessed).repo_id
    if kind == "image":
        return name, {"image_size": 224}  # of which most networks of timm were trained
    return f"huggingface/{name}", {"tokenizer": name}


def _fits(repo: CachedRepoInfo, kind: str) -> bool:
    """Whether a cached repository has the weights of a network for samples of this kind."""
    files = {file.file_name for each in repo.revisions for file in each.files}
    of_timm = repo.repo_id.startswith("timm/")
    fits = of_timm if kind == "image" else not (of_timm or files.isdisjoint(_TOKENIZER))
    return repo.repo_type == "model" and fits and not files.isdisjoint(_WEIGHTS)
