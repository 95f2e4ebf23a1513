"""A Hugging Face encoder of one small layer with its tokenizer, as users have it in a folder."""

from pathlib import Path

import torch

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def save_tiny_bert(folder: Path, pieces: list[str]) -> Path:
    """Write an encoder and a tokenizer of these word pieces to a new folder."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *pieces]))
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(pieces),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    BertModel(config).save_pretrained(folder)
    return folder
