"""The loaders read what is published, and say what is missing or damaged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_sets import (
    ARCHIVES,
    IMAGES,
    LABELS,
    write_archive,
    write_digits,
    write_faces,
    write_fans,
    write_har,
    write_idx,
    write_sounds,
)
from elmgrove import BadFile
from elmgrove_papers.data import celebrities, har, har_scaled, machines, mnist, recordings
from elmgrove_papers.data.celeba import PIXELS, picture
from elmgrove_papers.data.dcase import BANDS, FRAMES, filters, sound, stacked_log_mel


@pytest.mark.parametrize("ending", ["-ubyte", "-ubyte.gz"])
def test_mnist_from_idx_files(tmp_path: Path, ending: str) -> None:
    write_digits(tmp_path, ending)
    data = mnist(tmp_path)
    np.testing.assert_allclose(data.train * 255, IMAGES[:12].reshape(12, 784))
    np.testing.assert_array_equal(data.test_label, LABELS[12:])


def test_mnist_from_an_archive_is_the_same(tmp_path: Path) -> None:
    write_archive(tmp_path, "mnist")
    data = mnist(tmp_path)
    assert data.width == 784
    assert data.test.max() <= 1.0
    np.testing.assert_allclose(data.test * 255, IMAGES[12:].reshape(10, 784))


def test_har_from_the_official_folder(tmp_path: Path) -> None:
    X = write_har(tmp_path)
    data = har(tmp_path)
    np.testing.assert_allclose(data.train, X[:8], atol=1e-6)
    assert data.names[0] == "WALKING"
    assert data.test_label.tolist() == [2, 3, 4, 5, 0, 1]


def test_har_from_an_archive(tmp_path: Path) -> None:
    write_archive(tmp_path, "har")
    data = har(tmp_path)
    assert data.train_label.tolist() == [0, 1, 2, 3, 4, 5, 0, 1]
    assert data.test_label.tolist() == [2, 3, 4, 5, 0, 1]
    assert data.names == tuple("abcdef")


def test_rows_in_the_range_that_a_sigmoid_has(tmp_path: Path) -> None:
    write_har(tmp_path)
    data = har(tmp_path)
    scaled = har_scaled(tmp_path)
    np.testing.assert_allclose(2.0 * scaled.train - 1.0, data.train)
    np.testing.assert_allclose(2.0 * scaled.test - 1.0, data.test)
    np.testing.assert_array_equal(scaled.test_label, data.test_label)


def test_fans_without_the_rows_in_which_they_are_off(tmp_path: Path) -> None:
    write_fans(tmp_path)
    high, through = recordings(tmp_path)
    assert (high.device, len(high.rows), high.left_out) == ("12cm-noisy", 5, 0)
    assert (through.damage, len(through.rows), through.left_out) == ("damage1", 172, 63)


def test_celebrities_and_their_smiles(tmp_path: Path) -> None:
    write_faces(tmp_path)
    (one,) = celebrities(tmp_path)
    assert one.name == "celebrity-40"
    assert [path.stem for path in one.serious] == ["000003", "000006"]
    assert len(one.smiling) == 4
    row = picture(one.smiling[0])
    assert row.shape == (PIXELS**2,)
    assert 0.0 <= row.min() < row.max() <= 1.0


def test_celebrities_with_few_pictures_are_left_out(tmp_path: Path) -> None:
    write_faces(tmp_path)
    path = tmp_path / "celeba/data/raw/identity_CelebA.txt"
    path.write_text(
        path.read_text()
        .replace("000006.jpg 40", "000006.jpg 41")
        .replace("000005.jpg 40", "000005.jpg 41")
    )
    assert celebrities(tmp_path) == []


def test_machines_and_their_sounds(tmp_path: Path) -> None:
    write_sounds(tmp_path)
    car, pump = machines(tmp_path)
    assert (car.name, pump.name) == ("ToyCar-id_01", "pump-id_01")
    assert [len(part) for part in (car.train, car.normal, car.anomalous)] == [12, 9, 3]
    assert sound(car.train[0]).shape[1] == BANDS * FRAMES


def test_a_tone_is_in_its_band_and_frames_follow_each_other() -> None:
    tone = np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000)
    rows = stacked_log_mel(tone, 16000)
    middle = rows[len(rows) // 2].reshape(FRAMES, BANDS)
    band = int(middle[0].argmax())
    assert abs(int(filters(16000)[band].argmax()) * 16000 / 1024 - 1000) < 40
    np.testing.assert_array_equal(
        rows[3].reshape(FRAMES, BANDS)[1:], rows[4].reshape(FRAMES, BANDS)[:-1]
    )


def test_each_band_has_the_same_area_and_starts_where_it_should() -> None:
    weights = filters(48000)
    assert weights.shape == (BANDS, 513)
    np.testing.assert_allclose(weights[60:].sum(axis=1) * 48000 / 1024, 1.0, rtol=0.05)


@pytest.mark.parametrize("load", [mnist, har, recordings, celebrities, machines])
def test_what_is_missing_is_named_with_its_source(
    load: Callable[[Path], object], tmp_path: Path
) -> None:
    with pytest.raises(BadFile, match=r"download it from https://.* and put it there as") as error:
        load(tmp_path)
    assert str(tmp_path) in str(error.value)


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("ending", ["-ubyte", "-ubyte.gz"])
def test_a_damaged_idx_file_is_named(tmp_path: Path, ending: str) -> None:
    write_digits(tmp_path, ending)
    damage(tmp_path / f"train-images-idx3{ending}")
    with pytest.raises(BadFile, match=r"train-images.* download it again"):
        mnist(tmp_path)


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    write_fans(tmp_path)
    damage(tmp_path / "cooling_fan.npz")
    (tmp_path / "mnist.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "uci_har_time265.npz", X_train=np.zeros(3))
    for load, name, again in (
        (recordings, "cooling_fan.npz", "make it again from the data of"),
        (mnist, "mnist.npz", "download it again from"),
        (har, "uci_har_time265.npz", "make it again from the data of"),
    ):
        with pytest.raises(BadFile, match=f"{name} can't be read .*; {again} http"):
            load(tmp_path)


def test_the_error_tells_how_the_archive_of_fans_is_made(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"^cooling-fan is not in .* 512 bins .* time order") as error:
        recordings(tmp_path)
    assert "has to be put together from the zips in DATA" in str(error.value)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"X": np.zeros(243)}, "X is no table of finite numbers"),
        ({"X": np.full((243, 4), np.inf)}, "X is no table of finite numbers"),
        ({"rec_id": np.repeat([1, 2, 3], 81)}, "rows of no recording in rec_id"),
        ({"rec_env": ["noisy"]}, "columns of different lengths"),
    ],
)
def test_an_archive_of_fans_that_was_made_wrongly_is_refused(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    write_fans(tmp_path, **changed)
    with pytest.raises(BadFile, match=rf"cooling_fan\.npz .*{reason}"):
        recordings(tmp_path)


FOUR_FEATURES = np.zeros((8, 4))
NOT_FINITE = np.full((8, 265), np.nan)


@pytest.mark.parametrize(
    ("name", "changed", "reason"),
    [
        ("har", {"X_train": FOUR_FEATURES}, "4 features in train, 265 in test"),
        ("har", {"X_train": np.zeros(8)}, "train rows have 1 dimensions instead of 2"),
        ("har", {"X_train": NOT_FINITE}, "no finite numbers"),
        ("har", {"X_train": np.array(["text"] * 8)}, "text"),
        ("har", {"y_train": np.arange(7)}, "train has not as many labels as rows"),
        ("har", {"y_train": np.arange(8, dtype=np.uint8)}, "train has labels without a name"),
        ("har", {"y_test": np.full(6, 1.5)}, "test has labels without a name"),
        ("har", {"y_test": np.array([1, 2, 3, 4, 5, 5])}, "test has no rows of f"),
        ("har", {"y_train": np.array([1, 2, 3, 4, 5, 5, 1, 1])}, "train has no rows of f"),
        ("mnist", {"x_train": np.zeros((12, 8, 8))}, "64 features in train, 784 in test"),
        ("mnist", {"x_train": np.full((12, 28, 28), "a")}, "TypeError"),
        ("mnist", {"x_test": np.zeros(10)}, "pictures of 1 dimensions instead of 3"),
        ("mnist", {"y_test": np.arange(7, 17)}, "test has labels without a name"),
        ("mnist", {"y_test": np.arange(10) // 2}, "test has no rows of 5, 6, 7, 8, 9"),
    ],
)
def test_an_archive_on_which_no_figure_could_run_is_refused(
    tmp_path: Path, name: str, changed: dict[str, Any], reason: str
) -> None:
    write_archive(tmp_path, name, **changed)
    load = {"mnist": mnist, "har": har}[name]
    with pytest.raises(BadFile, match=rf"{ARCHIVES[name]} can't be read .*{reason}"):
        load(tmp_path)


def test_a_folder_of_har_with_parts_that_do_not_fit_is_named(tmp_path: Path) -> None:
    write_har(tmp_path)
    np.savetxt(tmp_path / "UCI HAR Dataset/test/X_test.txt", np.zeros((6, 3)))
    with pytest.raises(BadFile, match=r"UCI HAR Dataset can't be read .*561 features in train, 3"):
        har(tmp_path)


def test_labels_in_the_place_of_pictures_are_named(tmp_path: Path) -> None:
    write_digits(tmp_path)
    write_idx(tmp_path / "t10k-images-idx3-ubyte", LABELS[12:])
    with pytest.raises(BadFile, match=r"t10k-images-idx3-ubyte .*1 dimensions instead of 3"):
        mnist(tmp_path)


def test_missing_idx_files_are_named(tmp_path: Path) -> None:
    write_digits(tmp_path)
    for name in ("train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"):
        (tmp_path / name).unlink()
    expected = "incomplete in .*: train-labels-idx1-ubyte, t10k-images-idx3-ubyte missing"
    with pytest.raises(BadFile, match=expected):
        mnist(tmp_path)


def test_a_missing_part_of_har_is_named(tmp_path: Path) -> None:
    write_har(tmp_path)
    (tmp_path / "UCI HAR Dataset/test/y_test.txt").unlink()
    with pytest.raises(BadFile, match=r"y_test\.txt"):
        har(tmp_path)


def test_damaged_faces_and_sounds_are_named(tmp_path: Path) -> None:
    write_faces(tmp_path)
    write_sounds(tmp_path)
    (one,) = celebrities(tmp_path)
    headless, cut, *_ = machines(tmp_path)[0].train
    damage(one.smiling[0])
    damage(cut)
    headless.write_bytes(b"RIFF")
    with pytest.raises(BadFile, match=r"\.jpg"):
        picture(one.smiling[0])
    for file in (headless, cut):
        with pytest.raises(BadFile, match=r"\.wav"):
            sound(file)
    attributes = tmp_path / "celeba/data/raw/list_attr_celeba.txt"
    attributes.write_text(attributes.read_text().replace("6\n", "7\n", 1))
    with pytest.raises(BadFile, match="7 lines announced, 6 there"):
        celebrities(tmp_path)
