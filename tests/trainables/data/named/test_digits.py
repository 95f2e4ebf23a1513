import numpy as np

from trainables.data import load_dataset


def test_sizes_are_60_20_20() -> None:
    dataset = load_dataset("digits", seed=0)
    assert [len(part) for part in (dataset.train, dataset.validation, dataset.test)] == [
        1078,
        360,
        359,
    ]
    assert dataset.input_shape == (1, 8, 8)
    assert dataset.classes == tuple("0123456789")


def test_images_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    dataset = load_dataset("digits", seed=0)
    parts = (dataset.train, dataset.validation, dataset.test)
    ours = np.concatenate([part.inputs.reshape(-1, 64) for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    theirs = load_digits()
    rounded = np.round(theirs.data / 16 * 255 + 1e-9)
    key = [(*row, label) for row, label in zip(ours.tolist(), labels.tolist(), strict=True)]
    expected = [
        (*map(int, row), int(label)) for row, label in zip(rounded, theirs.target, strict=True)
    ]
    assert sorted(key) == sorted(expected)
