"""Principal components: orthonormal, fitted on training rows, one scale, fixed signs."""

import numpy as np
import pytest

from ulc.embedding import projection
from ulc.embedding.projection import fit_projection
from ulc.errors import InputError


def features(rows=200, width=10, seed=0):
    rng = np.random.default_rng(seed)
    spread = np.linspace(3, 0.1, width)
    return (5 + rng.normal(size=(rows, width)) * spread @ rotation(width)).astype(np.float32)


def rotation(width):
    return np.linalg.qr(np.random.default_rng(9).normal(size=(width, width)))[0]


@pytest.mark.parametrize("components", [0, 4, 10])
def test_the_mean_square_of_the_training_rows_is_1_and_their_mean_0(components):
    given = features()
    found = fit_projection(given, components).exact(given)
    assert np.mean(found**2) == pytest.approx(1)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-9)


def test_all_components_reconstruct_and_fewer_lose_what_they_say():
    given = features()
    centred = given - given.mean(axis=0, dtype=np.float64)
    for components in (10, 4):
        fitted = fit_projection(given, components)
        back = fitted.exact(given) * fitted.scale @ fitted.directions.T + fitted.mean
        lost = ((back - given) ** 2).sum() / (centred**2).sum()
        assert 1 - lost == pytest.approx(fitted.explained)
    assert fit_projection(given, 10).explained == pytest.approx(1)


def test_without_components_only_place_and_scale_change():
    given = features()
    fitted = fit_projection(given, 0)
    back = fitted(given).astype(np.float64) * fitted.scale + fitted.mean
    np.testing.assert_allclose(back, given, atol=0.02)  # half precision
    assert fitted.explained == 1


def test_distances_are_kept_up_to_one_scale():
    given = features()
    fitted = fit_projection(given, 10)
    before = np.linalg.norm(given[:50] - given[50:100], axis=1)
    after = np.linalg.norm(fitted.exact(given[:50]) - fitted.exact(given[50:100]), axis=1)
    np.testing.assert_allclose(after * fitted.scale, before, rtol=1e-5)


def test_signs_are_fixed_and_the_order_of_rows_does_not_matter():
    given = features()
    one, other = fit_projection(given, 6), fit_projection(given[::-1].copy(), 6)
    np.testing.assert_allclose(one.directions, other.directions, atol=1e-9)
    largest = np.abs(one.directions).argmax(axis=0)
    assert (one.directions[largest, range(6)] > 0).all()


@pytest.mark.parametrize(
    ("rows", "width", "kept"),
    [(300, 257, 256), (257, 300, 256), (256, 300, 300), (300, 256, 256), (300, 20, 20)],
)
def test_by_default_256_are_kept_where_there_are_more_and_rows_allow(rows, width, kept):
    given = features(rows, width)
    fitted = fit_projection(given)
    assert fitted(given).shape == (rows, kept)
    assert (fitted.directions is not None) == (width > kept)


def test_more_components_than_there_can_be_are_refused():
    with pytest.raises(InputError, match=r"--pca 6: 6 training images .* at most 5 .* 0 for none"):
        fit_projection(features(6), 6)
    with pytest.raises(InputError, match=r"--pca 11: 200 training images with 10 features"):
        fit_projection(features(), 11)


@pytest.mark.parametrize("components", [0, 3])
def test_features_that_are_all_alike_become_zeros(components):
    given = np.full((20, 5), 2.5, np.float32)
    found = fit_projection(given, components)(given)
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("components", [0, 4, 10])
@pytest.mark.parametrize("given", [features(), np.ones((20, 10), np.float32)])
def test_many_features_are_fitted_in_pieces_with_the_same_result(monkeypatch, components, given):
    whole = fit_projection(given, components)
    monkeypatch.setattr(projection, "MANY", given.size)
    monkeypatch.setattr(projection, "ROWS", 7)
    pieces = fit_projection(given, components)
    assert pieces.explained == pytest.approx(whole.explained, abs=1e-9)
    np.testing.assert_allclose(pieces.exact(given), whole.exact(given), atol=1e-6)
