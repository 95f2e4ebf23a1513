from trainables.data.readers.index_columns import index_columns


def test_index_columns() -> None:
    indexes = ["", "Unnamed: 0", "Unnamed: 0.1", "__index_level_0__", "__index_level_1__"]
    features = ["index", "id", "Unnamed: 32", "0", "x"]
    assert list(index_columns([*features, *indexes])) == indexes
