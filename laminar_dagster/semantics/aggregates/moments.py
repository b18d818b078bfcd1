"""Variance, covariance and correlation, merged without loss of digits.

Sums of squares lose all digits when values are large and close together. A partial therefore holds counts, means and
sums of squared distances from the mean, and two are merged by Chan's formula: with d the distance of the means,
M2 = M2a + M2b + d² · na · nb / n. https://en.wikipedia.org/wiki/Algorithms_for_calculating_variance#Parallel_algorithm

Over rows with weights the values themselves are kept, with their counts, and the moments are taken of those that
remain. No moment of doubles can be taken back: between a row and its retraction n may be 0, which Chan's formula
divides by; a large value that went leaves its rounding behind, squared; and a spread that has become exactly 0, where
CORR is NULL, would come out as about 1e-16, and its square root as 1e-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates.kernel import (
    Aggregate,
    Distinct,
    Kernel,
    PartialColumn,
    Signature,
    Values,
    let,
    number,
    present,
)
from laminar_dagster.semantics.aggregates.sets import (
    BY_PAIR,
    BY_VALUE,
    REMAINING,
    over_remaining,
    weighed_tuples,
    weighed_values,
)

Finish = Callable[[Sequence[float], Sequence[float]], float | None]


def _mean(x: str) -> str:
    """Exactly the value where there is but one, which the rounding of a sum would lose."""
    return f"coalesce(CASE WHEN min({x}) = max({x}) THEN min({x}) ELSE avg({x}) END, 0D)"


def _scaled(distance: str) -> str:
    return f"{distance} * a.n * (b.n / (a.n + b.n))"


def _moved(mean: str) -> str:
    """The mean of both: as far from the first as the second has weight."""
    return f"a.{mean} + (b.{mean} - a.{mean}) * (b.n / (a.n + b.n))"


def _merge(zero: str, fields: dict[str, str]) -> str:
    both = ", ".join(f"'{name}', {sql}" for name, sql in {"n": "a.n + b.n", **fields}.items())
    step = f"CASE WHEN b.n = 0 THEN a WHEN a.n = 0 THEN b ELSE named_struct({both}) END"
    return f"aggregate(collect_list({{p}}), {zero}, (a, b) -> {step})"


# --- of counts -----------------------------------------------------------------------------------------------

_WEIGHT = "aggregate(c, 0L, (a, e) -> a + e.n)"


def _summed(term: str) -> str:
    return f"aggregate(c, 0D, (a, e) -> a + {term} * e.n)"


def _centre(value: str) -> str:
    """The mean, by the distances from one of the values: of equal values exactly that value."""
    one = value.replace("e.", "get(c, 0).", 1)
    return f"{one} + {_summed(f'({value} - {one})')} / n"


def _of_remaining(means: dict[str, str], sums: dict[str, str]) -> str:
    """The weight `n` of what remains (`c`), and sums of products of distances from the means."""
    moments = ", ".join(f"'{name}', {_summed(product)}" for name, product in sums.items())
    found = f"named_struct('n', n, {moments})"
    for mean, value in means.items():
        found = let(mean, _centre(value), found)
    return let("c", REMAINING, let("n", _WEIGHT, found))


# --- one variable --------------------------------------------------------------------------------------------

_X = "CAST({x} AS DOUBLE)"
_SPREAD = PartialColumn(
    "m",
    f"named_struct('n', count({{x}}), 'mean', {_mean(_X)}, 'm2', coalesce(var_pop({_X}) * count({{x}}), 0D))",
    _merge(
        "named_struct('n', 0L, 'mean', 0D, 'm2', 0D)",
        {
            "mean": _moved("mean"),
            "m2": f"a.m2 + b.m2 + {_scaled('(b.mean - a.mean) * (b.mean - a.mean)')}",
        },
    ),
)
_WEIGHED_VALUES = weighed_values(t.DOUBLE)
_REMAINING_SPREAD = _of_remaining({"mean": "e.x"}, {"m2": "(e.x - mean) * (e.x - mean)"})


def _spread(name: str, summary: str, *, sample: bool, root: bool) -> Aggregate:
    taken = 1 if sample else 0
    variance = f"{{m}}.m2 / ({{m}}.n - {taken})"
    shown = f"sqrt({variance})" if root else variance
    finish = f"CASE WHEN {{m}}.n > {taken} THEN {shown} END"

    def fresh(values: Values) -> Any:
        found = [float(value) for value in present(values)]
        if len(found) <= taken:
            return None
        mean = _average(found)
        spread = _total((x - mean) ** 2 for x in found) / (len(found) - taken)
        return math.sqrt(spread) if root else spread

    def build(signature: Signature) -> Kernel:
        type_ = number(signature.first)
        kernel = Kernel((type_,), t.DOUBLE, (_SPREAD,), finish, fresh)
        return kernel.with_weights((_WEIGHED_VALUES,), over_remaining(finish, "m", _REMAINING_SPREAD), grows=BY_VALUE)

    return Aggregate(name, build, summary, distinct=Distinct.REFUSED)


def _total(values: Any) -> float:
    found = list(values)
    return math.fsum(found) if all(map(math.isfinite, found)) else math.nan


def _average(found: Sequence[float]) -> float:
    return found[0] if min(found) == max(found) else _total(found) / len(found)


# --- two variables -------------------------------------------------------------------------------------------

_PAIR_X = "CASE WHEN {y} IS NOT NULL THEN CAST({x} AS DOUBLE) END"
_PAIR_Y = "CASE WHEN {x} IS NOT NULL THEN CAST({y} AS DOUBLE) END"
_PAIRS = f"count({_PAIR_X})"
_JOINT = PartialColumn(
    "m",
    f"named_struct('n', {_PAIRS}, 'mx', {_mean(_PAIR_X)}, 'my', {_mean(_PAIR_Y)}, "
    f"'mxx', coalesce(var_pop({_PAIR_X}) * {_PAIRS}, 0D), 'myy', coalesce(var_pop({_PAIR_Y}) * {_PAIRS}, 0D), "
    f"'cxy', coalesce(covar_pop({_PAIR_X}, {_PAIR_Y}) * {_PAIRS}, 0D))",
    _merge(
        "named_struct('n', 0L, 'mx', 0D, 'my', 0D, 'mxx', 0D, 'myy', 0D, 'cxy', 0D)",
        {
            "mx": _moved("mx"),
            "my": _moved("my"),
            "mxx": f"a.mxx + b.mxx + {_scaled('(b.mx - a.mx) * (b.mx - a.mx)')}",
            "myy": f"a.myy + b.myy + {_scaled('(b.my - a.my) * (b.my - a.my)')}",
            "cxy": f"a.cxy + b.cxy + {_scaled('(b.mx - a.mx) * (b.my - a.my)')}",
        },
    ),
)
_WEIGHED_PAIRS = weighed_tuples((t.DOUBLE, t.DOUBLE))
_REMAINING_JOINT = _of_remaining(
    {"mx": "e.x.x", "my": "e.x.y"},
    {
        "mxx": "(e.x.x - mx) * (e.x.x - mx)",
        "myy": "(e.x.y - my) * (e.x.y - my)",
        "cxy": "(e.x.x - mx) * (e.x.y - my)",
    },
)


def _joint(name: str, summary: str, finish: str, fresh: Finish) -> Aggregate:
    def over_pairs(values: Values) -> Any:
        pairs = [(float(x), float(y)) for x, y in values if x is not None and y is not None]
        xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
        return fresh(xs, ys)

    def build(signature: Signature) -> Kernel:
        types = tuple(number(type_) for type_ in signature.types)
        kernel = Kernel(types, t.DOUBLE, (_JOINT,), finish, over_pairs)
        return kernel.with_weights((_WEIGHED_PAIRS,), over_remaining(finish, "m", _REMAINING_JOINT), grows=BY_PAIR)

    return Aggregate(name, build, summary, arguments=2, distinct=Distinct.REFUSED)


def _products(xs: Sequence[float], ys: Sequence[float]) -> float:
    mx, my = _average(xs), _average(ys)
    return _total((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))


def _covariance(taken: int) -> Finish:
    return lambda xs, ys: _products(xs, ys) / (len(xs) - taken) if len(xs) > taken else None


def _varies(values: Sequence[float]) -> bool:
    return len(set(values)) > 1 or not all(map(math.isfinite, values))


def _correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    if not (_varies(xs) and _varies(ys)):
        return None
    return _products(xs, ys) / (math.sqrt(_products(xs, xs)) * math.sqrt(_products(ys, ys)))


_ONE_ROW = "NULL over a single one"
MOMENTS = (
    _spread("stddev", f"sample standard deviation; {_ONE_ROW}", sample=True, root=True),
    _spread("stddev_samp", "the same as STDDEV", sample=True, root=True),
    _spread("stddev_pop", "population standard deviation", sample=False, root=True),
    _spread("variance", f"sample variance; {_ONE_ROW}", sample=True, root=False),
    _spread("var_samp", "the same as VARIANCE", sample=True, root=False),
    _spread("var_pop", "population variance", sample=False, root=False),
    _joint(
        "covar_samp",
        f"sample covariance of the rows in which neither is NULL; {_ONE_ROW}",
        "CASE WHEN {m}.n > 1 THEN {m}.cxy / ({m}.n - 1) END",
        _covariance(1),
    ),
    _joint(
        "covar_pop",
        "population covariance of the rows in which neither is NULL",
        "CASE WHEN {m}.n > 0 THEN {m}.cxy / {m}.n END",
        _covariance(0),
    ),
    _joint(
        "corr",
        "Pearson's correlation of the rows in which neither is NULL; NULL where one of the two does not vary",
        "CASE WHEN {m}.mxx > 0 AND {m}.myy > 0 THEN {m}.cxy / (sqrt({m}.mxx) * sqrt({m}.myy)) END",
        _correlation,
    ),
)
