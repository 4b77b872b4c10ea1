"""Models split over several files (llama.cpp, gguf-split), written here by the gguf package."""

import shutil
from pathlib import Path

import gguf
import numpy as np
import pytest

from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.errors import LoadFailed, LoadFailure
from pantheon.engine.gguf import GGUFError, GGUFFile, named_shards, weights_version
from pantheon.engine.loading import load_instance
from pantheon.engine.model_path import below_root
from tests.engine.gguf import builder
from tests.engine.gguf.split import split_model
from tests.golden import golden_file

_WHOLE = "models/llama-minicpm5-f32.gguf"


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """A model of 30 tensors in four files."""
    return split_model(golden_file(_WHOLE), tmp_path, 8)


def _split(part: int, count: int, tensors: int, names: list[str]) -> bytes:
    """A small file that says where it stands."""
    pairs = [
        builder.text("general.architecture", "toy"),
        builder.uint32("split.no", part),
        builder.uint32("split.count", count),
        builder.uint32("split.tensors.count", tensors),
    ]
    table = [builder.tensor(name, [8], builder.F32, 32 * at) for at, name in enumerate(names)]
    return builder.File(pairs, table, bytes(32 * len(names))).pack()


def test_the_files_are_one_model(shards: list[Path]) -> None:
    """Tensors, metadata and the number of the weights are those of the whole."""
    assert [path.name[-20:] for path in shards] == [
        f"-0000{part}-of-00004.gguf" for part in (1, 2, 3, 4)
    ]
    with GGUFFile(shards[0]) as split, GGUFFile(golden_file(_WHOLE)) as whole:
        assert split.tensors.keys() == whole.tensors.keys()
        for name, info in whole.tensors.items():
            np.testing.assert_array_equal(
                split.tensor(name, info.shape).packed, whole.tensor(name).packed
            )
        assert weights_version(split) == weights_version(whole)
        assert "llama.block_count" in split.metadata


def test_quantised_weights_are_other_weights() -> None:
    with GGUFFile(golden_file(_WHOLE)) as file:
        assert weights_version(file, quantized=True) != weights_version(file)


def test_a_file_that_is_not_the_first_names_the_first(shards: list[Path]) -> None:
    with pytest.raises(GGUFError, match=f"file 3 of 4.*name the first, {shards[0].name}"):
        GGUFFile(shards[2])


def test_a_missing_file_is_named_and_the_load_fails(shards: list[Path]) -> None:
    shards[1].unlink()
    config = EngineConfig(models=(), backend="cpu", build="test")
    with pytest.raises(LoadFailed, match=shards[1].name) as refused:
        load_instance(ModelOptions(path=shards[0]), config)
    assert refused.value.failure is LoadFailure.OTHER


def test_a_first_file_under_another_name_is_refused(shards: list[Path], tmp_path: Path) -> None:
    renamed = shards[0].rename(tmp_path / "model.gguf")
    with pytest.raises(GGUFError, match=r"must end in -00001-of-00004\.gguf"):
        GGUFFile(renamed)


def test_a_file_in_the_place_of_another_is_refused(shards: list[Path]) -> None:
    shutil.copy(shards[2], shards[1])
    with pytest.raises(GGUFError, match=r"must be file 2 of 4.*says that it is file 3 of 4"):
        GGUFFile(shards[0])


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    first, second = named_shards(tmp_path / "m-00001-of-00002.gguf")
    first.write_bytes(_split(0, 2, 3, ["a", "b"]))
    second.write_bytes(_split(1, 2, 3, ["b"]))
    with pytest.raises(GGUFError, match=f"'b' occurs in {first.name} and in {second.name}"):
        GGUFFile(first)


def test_the_number_of_tensors_is_checked(tmp_path: Path) -> None:
    first, second = named_shards(tmp_path / "m-00001-of-00002.gguf")
    first.write_bytes(_split(0, 2, 4, ["a", "b"]))
    second.write_bytes(_split(1, 2, 4, ["c"]))
    with pytest.raises(GGUFError, match=r"hold 4 tensors \(split.tensors.count\), found 3"):
        GGUFFile(first)


@pytest.mark.parametrize(("part", "count"), [(0, 1025), (0, 1 << 32 - 1), (2, 2), (9, 2)])
def test_numbers_out_of_range_are_refused(tmp_path: Path, part: int, count: int) -> None:
    path = tmp_path / "m-00001-of-00002.gguf"
    path.write_bytes(_split(part, count, 1, ["a"]))
    with pytest.raises(GGUFError, match=r"split\.(no|count)"):
        GGUFFile(path)


@pytest.mark.parametrize("name", ["m-00001-of-00001.gguf", "anything.gguf"])
def test_one_file_of_one_is_whole_whatever_its_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(_split(0, 1, 1, ["a"]))
    with GGUFFile(path) as file:
        assert list(file.tensors) == ["a"]


def test_a_file_of_a_split_model_outside_the_root_is_not_found(
    shards: list[Path], tmp_path: Path
) -> None:
    """The others are opened by name: a link among them must not lead out of the root."""
    root = tmp_path / "root"
    root.mkdir()
    moved = [shutil.move(shard, root / shard.name) for shard in shards]
    below_root(ModelOptions(path=moved[0]), root)
    moved[1].rename(tmp_path / "outside.gguf")
    moved[1].symlink_to(tmp_path / "outside.gguf")
    with pytest.raises(LoadFailed) as refused:
        below_root(ModelOptions(path=moved[0]), root)
    assert refused.value.failure is LoadFailure.FILE_NOT_FOUND


def test_the_package_writes_what_is_expected_here(shards: list[Path]) -> None:
    """The keys of every file, by the package's own reader."""
    for part, path in enumerate(shards):
        fields = gguf.GGUFReader(path).fields
        assert fields["split.no"].contents() == part
        assert fields["split.count"].contents() == 4
        assert fields["split.tensors.count"].contents() == 30
