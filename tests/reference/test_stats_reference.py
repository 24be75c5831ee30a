"""Intervals and tests against statsmodels and scipy."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats as scipy_stats

from scholar_rag_li.stats import (
    difference_interval,
    holm,
    mean_interval,
    sign_flip_p,
    standard_error,
)

pytestmark = pytest.mark.reference


def clustered(seed, n=60, n_groups=17):
    """Return random values in [-1, 1], their questions and unequal groups."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n)])
    values = rng.uniform(-1, 1, labels.size) + 0.4 * np.sin(labels)
    d = {f"q{i:03}": float(value) for i, value in enumerate(values)}
    groups = {f"q{i:03}": f"g{label}" for i, label in enumerate(labels)}
    return d, groups, labels


def cluster_fit(d, labels):
    """Fit a constant; its correction G/(G-1) · (n-1)/(n-1) is the one of MEASURES."""
    values = np.array(list(d.values()))
    return sm.OLS(values, np.ones((values.size, 1))).fit(
        cov_type="cluster", cov_kwds={"groups": labels}, use_t=True
    )


@pytest.mark.parametrize("seed", range(5))
def test_clustered_error_is_that_of_statsmodels(seed):
    """The standard error is OLS's on a constant with cluster-robust covariance."""
    d, groups, labels = clustered(seed)
    expected = cluster_fit(d, labels).bse[0]
    assert standard_error(d, groups) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("interval", [difference_interval, mean_interval])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 1 - 0.05 / 3])
def test_clustered_interval_is_that_of_statsmodels(interval, confidence):
    """So are the bounds, t with G - 1 degrees of freedom."""
    d, groups, labels = clustered(11)
    expected = cluster_fit(d, labels).conf_int(1 - confidence)[0]
    found = interval(d, groups, confidence=confidence)
    assert (found.low, found.high) == pytest.approx(tuple(expected), rel=1e-9)


def test_mean_interval_of_single_questions_is_the_t_interval():
    """With a group a question the clustered formula is the usual t interval."""
    values = np.random.default_rng(4).uniform(size=30)
    named = {f"q{i}": float(value) for i, value in enumerate(values)}
    expected = scipy_stats.ttest_1samp(values, 0).confidence_interval(0.95)
    found = mean_interval(named, {q: q for q in named}, confidence=0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("m", [3, 7, 12])
def test_enumerated_p_is_that_of_scipy(seed, m):
    """The exact paired permutation test of scipy gives the same p."""
    sums = np.random.default_rng(seed).choice([-1, -0.5, 0.25, 0.5, 1, 2], size=m)
    expected = scipy_stats.permutation_test(
        (sums,),
        lambda x, axis: np.sum(x, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    ).pvalue
    found = sign_flip_p({str(i): float(s) for i, s in enumerate(sums)}, seed=0)
    assert found == pytest.approx(expected)


def test_sampled_p_is_near_that_of_scipy():
    """40 groups: two samples of 9999 patterns differ by at most 4 standard errors."""
    sums = np.random.default_rng(8).normal(0.25, 1, size=40)
    expected = scipy_stats.permutation_test(
        (sums,),
        lambda x, axis: np.sum(x, axis=axis),
        permutation_type="samples",
        n_resamples=9999,
        vectorized=True,
        rng=np.random.default_rng(9),
    ).pvalue
    found = sign_flip_p({str(i): float(s) for i, s in enumerate(sums)}, seed=0)
    error = np.sqrt(2 * expected * (1 - expected) / 9999)
    assert abs(found - expected) < 4 * error


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_the_step_down_of_its_definition(seed):
    """Rejections at .05 are those of sequential p_(i) <= .05/(m - i), i from 0."""
    p = np.random.default_rng(seed).beta(0.3, 3, size=9)
    order = np.argsort(p)
    passed = np.logical_and.accumulate(p[order] <= 0.05 / (9 - np.arange(9)))
    corrected = np.array(holm(p.tolist()))
    assert (corrected[order] <= 0.05).tolist() == passed.tolist()
