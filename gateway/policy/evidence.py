"""The loss-aware decision: evidence with weights to a probability, a loss matrix to expected losses, the lower wins.

Owns the sum and its exactness. The sum is made in whole milli-nats (thousandths of the natural logarithm of odds), so
it is the same on every machine and in every order; each rounding goes up, towards malice. Floats occur nowhere; what
is shown to people is decimal. Which facts count as evidence is decided by whoever gathers them, never by what an
extension says of itself. Source: the extension system plan, "formal decisioning".

With p the probability of malice, granting costs `p·L(grant, malicious) + (1-p)·L(grant, benign)`, denying the same
with the other column. Granting is cheaper exactly if the odds p/(1-p) are below a/b, where a is what a false denial
costs more than a right grant, b what a false grant costs more than a right denial: p < a/(a+b).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from math import gcd
from typing import Final

import msgspec

WHOLE: Final = 1000
"""A signal that is fully present; the unit of signals is thousandths."""
MOST_WEIGHT: Final = 3000
"""Milli-nats of one signal, either way: signals that go together are counted twice, so none may decide alone."""
MOST_SIGNALS: Final = 64
MOST_LOSS: Final = 1_000_000
MOST_PRIOR: Final = 1_000_000

_exact = Context(prec=50)
_NINE: Final = Decimal("0.000000001")
_THREE: Final = Decimal("0.001")


class EvidenceError(ValueError):
    """A model or signals that give no sum. Whoever meets it denies."""


class Losses(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each outcome costs, in whole units."""

    grant_benign: int = 0
    deny_benign: int = 2
    grant_malicious: int = 100
    deny_malicious: int = 1

    @property
    def false_denial(self) -> int:
        """What denying the benign costs more than granting it: `a`."""
        return self.deny_benign - self.grant_benign

    @property
    def false_grant(self) -> int:
        """What granting the malicious costs more than denying it: `b`."""
        return self.grant_malicious - self.deny_malicious


class Weight(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a signal says, in milli-nats: where it is present, and where it is not."""

    present: int
    absent: int = 0


WEIGHTS: Final = {
    "uses_fs": Weight(present=200),
    "uses_exec": Weight(present=2000),
    "unsigned": Weight(present=1000),
    "size_mb": Weight(present=500),
}
"""The signals of the plan. The weights are a policy, not statistics."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """How evidence is weighed. `prior` is the probability of malice before any: so many of so many."""

    prior: tuple[int, int] = (1, 100)
    weights: dict[str, Weight] = msgspec.field(default_factory=lambda: dict(WEIGHTS))
    losses: Losses = Losses()


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One summand. `signal` in thousandths, the weights and `term` in milli-nats."""

    name: str
    signal: int
    present: int
    absent: int
    term: int


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """The decision with every number that it was made of."""

    prior: str
    """As a fraction: `1/100`."""
    prior_mn: int
    terms: tuple[Term, ...]
    sum_mn: int
    threshold_mn: int
    """Granted if the sum is no higher."""
    threshold: str
    """The probability below which granting is cheaper, as a fraction: `2/101`."""
    losses: Losses
    probability: str
    expected_grant: str
    expected_deny: str
    grants: bool


def model_fault(model: Model) -> str | None:
    """Return what is wrong with a model, as a sentence without its end; None for nothing."""
    low, high = model.prior
    if not 0 < low < high <= MOST_PRIOR:
        return f"the prior must be a fraction between 0 and 1, of numbers up to {MOST_PRIOR}"
    if len(model.weights) > MOST_SIGNALS:
        return f"there may be up to {MOST_SIGNALS} signals"
    for name, weight in model.weights.items():
        if abs(weight.present) > MOST_WEIGHT or abs(weight.absent) > MOST_WEIGHT:
            return f"the weight of `{name}` must lie between -{MOST_WEIGHT} and {MOST_WEIGHT} milli-nats"
    losses = model.losses
    if not all(0 <= each <= MOST_LOSS for each in msgspec.structs.astuple(losses)):
        return f"a loss must lie between 0 and {MOST_LOSS}"
    if losses.false_denial <= 0 or losses.false_grant <= 0:
        return "to deny the benign must cost more than to grant it, and to grant the malicious more than to deny it"
    return None


def assess(model: Model, signals: Mapping[str, int]) -> Assessment:
    """Return the decision about an extension with these signals, in thousandths. What is not given is absent.

    Raises:
        EvidenceError: If the model is wrong, or a signal is unknown to it or not between 0 and 1000.
    """
    if (fault := model_fault(model)) is not None:
        raise EvidenceError(fault)
    for name, signal in signals.items():
        if name not in model.weights:
            raise EvidenceError(f"the policy gives no weight to the signal `{name}`")
        if type(signal) is not int or not 0 <= signal <= WHOLE:
            raise EvidenceError(f"the signal `{name}` must lie between 0 and {WHOLE}")
    terms = tuple(
        Term(
            name=name, signal=signal, present=weight.present, absent=weight.absent, term=_term(weight, signal)
        )
        for name, weight in sorted(model.weights.items())
        for signal in (signals.get(name, 0),)
    )
    low, high = model.prior
    prior_mn = log_odds(low, high - low)
    total = prior_mn + sum(term.term for term in terms)
    losses = model.losses
    limit = threshold(losses)
    a, b = losses.false_denial, losses.false_grant
    probability, grant, deny = _shown(total, losses)
    return Assessment(
        prior=f"{low}/{high}",
        prior_mn=prior_mn,
        terms=terms,
        sum_mn=total,
        threshold_mn=limit,
        threshold=_fraction(a, a + b),
        losses=losses,
        probability=probability,
        expected_grant=grant,
        expected_deny=deny,
        grants=total <= limit,
    )


@lru_cache(maxsize=256)
def log_odds(one: int, other: int) -> int:
    """Return ln(one/other) in milli-nats, rounded up."""
    return int(_milli_nats(one, other).to_integral_value(rounding=ROUND_CEILING))


@lru_cache(maxsize=256)
def threshold(losses: Losses) -> int:
    """Return the highest sum, in milli-nats, at which granting is strictly cheaper.

    The logarithm of a fraction other than 1 is no whole number of milli-nats, so only equal losses can tie.
    """
    a, b = losses.false_denial, losses.false_grant
    if a == b:
        return -1
    return int(_milli_nats(a, b).to_integral_value(rounding=ROUND_FLOOR))


def _milli_nats(one: int, other: int) -> Decimal:
    ratio = _exact.divide(Decimal(one), Decimal(other))
    return _exact.multiply(_exact.ln(ratio), Decimal(1000))


def _term(weight: Weight, signal: int) -> int:
    """Both halves in milli-nats, each rounded up."""
    return -(-weight.present * signal // WHOLE) - (-weight.absent * (WHOLE - signal) // WHOLE)


def _fraction(one: int, other: int) -> str:
    shared = gcd(one, other)
    return f"{one // shared}/{other // shared}"


def _shown(total: int, losses: Losses) -> tuple[str, str, str]:
    """Probability to nine digits, expected losses to three, for people: nothing is decided by them."""
    odds = _exact.exp(_exact.divide(Decimal(total), Decimal(1000)))
    p = _exact.divide(odds, _exact.add(odds, Decimal(1)))
    q = _exact.subtract(Decimal(1), p)

    def expected(malicious: int, benign: int) -> str:
        loss = _exact.add(_exact.multiply(p, Decimal(malicious)), _exact.multiply(q, Decimal(benign)))
        return str(_exact.quantize(loss, _THREE))

    return (
        str(_exact.quantize(p, _NINE)),
        expected(losses.grant_malicious, losses.grant_benign),
        expected(losses.deny_malicious, losses.deny_benign),
    )
