"""What an aggregate is: how rows make a partial, how partials merge, how a merged partial becomes a result.

Templates are Spark SQL. `make` speaks of a row: `{x}`, `{y}` (then `{x2}`, `{x3}`, …) are the arguments, NULL where
FILTER leaves the row out; `{t}` is its event time in microseconds, and behind it, where rows have no weights, its place
in the order of arrival; `{keep}` says whether FILTER lets it in, for aggregates to which a NULL is a value. `merge`
speaks of partials: `{p}` is the column itself, its siblings go by name.
`finish` speaks of the merged columns by name. A partial's type is the same before and after a merge, because
compaction writes merged partials into the files that fresh ones are read with.

Where rows come with weights, an aggregate has a kernel of its own (`weighted`), whose `make` also speaks of `{w}`: how
often the row is there, never NULL, negative for a retraction. A partial may hold a retraction without its row; when
it is finished, no row is there less than 0 times. Exact totals take up to 2^31 rows of an epoch, added or taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from string import Formatter
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.functions import ArgumentTypeError, order
from laminar_dagster.semantics.types import DataType
from laminar_dagster.semantics.zset import canonical

Values = Sequence[Any]
TIME, KEEP, WEIGHT = "t", "keep", "w"


@dataclass(frozen=True)
class PartialColumn:
    """One column of an accumulator: made from rows, merged from partials."""

    name: str
    make: str
    merge: str


@dataclass(frozen=True)
class Ordering:
    """How values of one key of an ORDER BY stand to each other."""

    descending: bool = False
    nulls_first: bool = True

    def compare(self, a: Any, b: Any) -> int:
        """Less than, equal to or greater than 0, as `a` comes before, with or after `b`."""
        if a is None or b is None:
            null = -1 if self.nulls_first else 1
            return 0 if a is b else null if a is None else -null
        less = 1 if self.descending else -1
        return 0 if order(a) == order(b) else less if order(a) < order(b) else -less


@dataclass(frozen=True)
class Signature:
    """What a call asks for: the types of what it reads of a row (ORDER BY's keys last), and its constants."""

    types: tuple[DataType, ...] = ()
    constants: tuple[Any, ...] = ()
    distinct: bool = False
    order: tuple[Ordering, ...] = ()

    @property
    def first(self) -> DataType:
        if not self.types:
            raise ArgumentTypeError("it takes an argument")
        return self.types[0]


@dataclass(frozen=True)
class Kernel:
    """One aggregate for one signature.

    `fresh` is the plain meaning over all rows of a group, NULLs included: what the reference computes. It is given
    what `inputs` names: the bare value where that is one thing, else a tuple. `weighted` computes the same over rows
    with weights: what `fresh` gives over the rows that remain; None for an aggregate that cannot.
    """

    arguments: tuple[DataType, ...]
    result: DataType
    partials: tuple[PartialColumn, ...]
    finish: str
    fresh: Callable[[Values], Any] = field(compare=False)
    overflow: str | None = None
    grows: str | None = None
    aggregate: str = ""
    constants: tuple[Any, ...] = ()
    order: tuple[Ordering, ...] = ()
    weighted: Kernel | None = None

    def with_weights(
        self,
        partials: tuple[PartialColumn, ...],
        finish: str,
        *,
        overflow: str | None = None,
        grows: str | None = None,
    ) -> Kernel:
        """This kernel, and what it becomes over rows with weights."""
        weighted = replace(self, partials=partials, finish=finish, overflow=overflow, grows=grows)
        return replace(self, weighted=weighted)

    def called(self, aggregate: str, constants: tuple[Any, ...], order: tuple[Ordering, ...]) -> Kernel:
        """This kernel as that of a call."""
        weighted = None if self.weighted is None else self.weighted.called(aggregate, constants, order)
        return replace(self, aggregate=aggregate, constants=constants, order=order, weighted=weighted)

    @property
    def retraction(self) -> str:
        """How it takes a row back: by its `weight`, with a count per `value`, or `none`: not at all."""
        taking = self if WEIGHT in self.mentions else self.weighted
        return "none" if taking is None else "weight" if taking.grows is None else "value"

    @property
    def accepts_retraction(self) -> bool:
        return self.retraction != "none"

    @property
    def mentions(self) -> frozenset[str]:
        """The names that `make` speaks of: what the engine has to prepare of each row."""
        parsed = (Formatter().parse(partial.make) for partial in self.partials)
        return frozenset(name for fields in parsed for _, name, _, _ in fields if name)

    @property
    def goes_by_arrival(self) -> bool:
        """Whether ties of event time are settled by what came first. What is taken back has no place of its own."""
        return TIME in self.mentions and WEIGHT not in self.mentions

    @property
    def inputs(self) -> tuple[str, ...]:
        """What `fresh` sees of a row: the arguments, and the time and arrival if rows are told apart by these."""
        names = tuple(argument_name(i) for i in range(len(self.arguments))) or ("x",)
        return (*names, TIME) if TIME in self.mentions else names


class Distinct(Enum):
    """What DISTINCT does to an aggregate."""

    OWN = "each value once"
    SAME = "changes nothing"
    REFUSED = "refused"


@dataclass(frozen=True)
class Constant:
    """An argument that is the same for all rows. `read` gives its value or raises ArgumentTypeError."""

    name: str
    read: Callable[[Literal], Any]
    default: Any = None
    required: bool = False


@dataclass(frozen=True)
class Aggregate:
    """A name a user may call, and how its kernel follows from what the call asks for."""

    name: str
    build: Callable[[Signature], Kernel]
    summary: str
    arguments: int = 1
    constants: tuple[Constant, ...] = ()
    distinct: Distinct = Distinct.SAME
    ordered: bool = False

    def kernel(
        self,
        *types: DataType,
        constants: tuple[Any, ...] = (),
        distinct: bool = False,
        order: tuple[Ordering, ...] = (),
    ) -> Kernel:
        """The kernel for arguments of these types; ArgumentTypeError where there is none."""
        given = (*constants, *(constant.default for constant in self.constants[len(constants) :]))
        kernel = self.build(Signature(types, given, distinct and self.distinct is Distinct.OWN, order))
        return kernel.called(self.name, given, order)


def argument_name(position: int) -> str:
    """How a template calls the argument."""
    return ("x", "y")[position] if position < 2 else f"x{position}"


def present(values: Values) -> list[Any]:
    return [value for value in values if value is not None]


def unique(values: Values) -> list[Any]:
    """The distinct values that are not NULL, as Spark tells them apart."""
    return list({canonical(value): value for value in present(values)}.values())


def number(argument: DataType) -> DataType:
    if not (argument.is_numeric or argument.is_null):
        raise ArgumentTypeError(f"it takes a number, not {argument}")
    return t.BIGINT if argument.is_null else argument


def ordered(argument: DataType) -> DataType:
    """A type that has an order, and that a file can hold."""
    if argument.is_null:
        raise ArgumentTypeError("its argument is NULL without a type; write CAST(NULL AS …)")
    if argument.name.startswith(("MAP<", "ARRAY<", "STRUCT<")):
        raise ArgumentTypeError(f"it takes a type that has an order, not {argument}")
    return argument


def let(name: str, value: str, body: str) -> str:
    """`body` with `name` for `value`, which is computed once: SQL has no other way to say it."""
    return f"transform(array({value}), {name} -> {body})[0]"
