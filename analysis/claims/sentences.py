"""What the runs say about a claim, as a sentence with units: the inequality that decides it, in words."""

from collections.abc import Mapping, Sequence
from math import isfinite

from analysis.claims.claims import Claim
from analysis.claims.formula import Inequality
from analysis.claims.inference import Estimated
from analysis.data.methods import environment_name, known_environments, name_of
from analysis.data.reported import EntryKey

_PERCENT = ("success", "score", "training", "share", "records", "states", "gain", "All")
_UNITS = {"seconds": "s"}
_DIAGNOSTICS = {"entropy": "nats", "responses cut off": "%", "token advantage": "%"}


def unit_of(key: EntryKey) -> str:
    """Return the unit of an entry: ``%``, ``s``, ``nats``, or empty for a plain number."""
    _, row, _, column = key
    last = column.rpartition("/")[2]
    if column != "diagnostics":
        return _UNITS.get(last, "%" if last in _PERCENT or "/" in column else "")
    return next((unit for word, unit in _DIAGNOSTICS.items() if row.startswith(word)), "%" * ("change" in row))


def sentence(claim: Claim, deciding: Estimated, means: Mapping[str, float]) -> str:
    """Return the deciding inequality as a sentence.

    ``means``: the mean over training seeds of each entry of the runs, by the name that the claim gives it.
    """
    inequality = deciding.inequality
    above = {name: c for name, c in inequality.coefficients.items() if c > 0}
    below = {name: -c for name, c in inequality.coefficients.items() if c < 0}
    if inequality.of_spread:
        return _spread(claim, deciding, *above, *below)
    if len(above) + len(below) == 1:
        return _bound(claim, deciding, means, bool(above))
    if len(above) == len(below) == 1:
        ((more, a),), ((less, b),) = above.items(), below.items()
        return _pair(claim, deciding, means, (more, less), b / a)
    return f"{inequality}: by {_signed(deciding.value)}{_interval(deciding)}"


def reported(claim: Claim, inequality: Inequality, means: Mapping[str, float]) -> str:
    """Return an inequality with the paper's numbers, in the units of ``sentence``. ``means``: as printed."""
    above = [name for name, c in inequality.coefficients.items() if c > 0]
    below = [name for name, c in inequality.coefficients.items() if c < 0]
    if inequality.of_spread:
        return f"{_signed(inequality.quantity(means))} points"
    units = {unit_of(claim.entries[name]) for name in (*above, *below)}
    unit = units.pop() if len(units) == 1 else ""
    if len(above) + len(below) == 1:
        return _with(means[(above + below)[0]], unit)
    factor = abs(inequality.coefficients[below[0]] / inequality.coefficients[above[0]]) if above and below else 1
    if len(above) == len(below) == 1 and factor != 1 and means[below[0]]:
        return f"{means[above[0]] / means[below[0]]:.3g} times"
    value = inequality.quantity(means) - (inequality.constant if unit == "%" else 0)
    return f"{_signed(value)} {'points' if unit == '%' else unit}".rstrip()


def _bound(claim: Claim, deciding: Estimated, means: Mapping[str, float], above: bool) -> str:
    """Return a sentence on one entry and the number that it is compared with."""
    ((name, coefficient),) = deciding.inequality.coefficients.items()
    key = claim.entries[name]
    unit, limit = unit_of(key), abs(deciding.inequality.constant / coefficient)
    bounds = sorted(limit + (end if above else -end) for end in deciding.interval)
    shown = f" [{bounds[0]:.3g}, {bounds[1]:.3g}]" if isfinite(bounds[0]) else ""
    claimed = f"claimed: {'above' if above else 'below'} {_with(limit, unit)}"
    return f"{_words([key])[0]}: {_with(means[name], unit)}{shown} ({claimed})"


def _pair(claim: Claim, deciding: Estimated, means: Mapping[str, float], names: tuple[str, str], factor: float) -> str:
    """Return a sentence on two entries: their difference in points, or how many times as large one is."""
    keys = [claim.entries[name] for name in names]
    (more, less), unit = _words(keys), unit_of(keys[0])
    x, y = (means[name] for name in names)
    constant = deciding.inequality.constant
    if unit == "%" and factor == 1:
        told = f"{more}: {x:.1f} %; {less}: {y:.1f} %; difference {_signed(deciding.value - constant)} points"
        bounds = [end - constant for end in deciding.interval]
        told += f" [{bounds[0]:.3g}, {bounds[1]:.3g}]" if isfinite(bounds[0]) else ""
        return told + (f" (claimed: above {-constant:g})" if constant else "")
    if factor == 1 or y == 0:
        told = f"{more}: {_with(x, unit)}; {less}: {_with(y, unit)}"
        return f"{told}; difference {_signed(deciding.value)}{_interval(deciding)}"
    what = f"take {x / y:.3g} times as long as" if unit == "s" else f"is {x / y:.3g} times"
    return f"{more} {what} {less} (claimed: more than {factor:g} times)"


def _spread(claim: Claim, deciding: Estimated, more: str, less: str) -> str:
    first, second = _words([claim.entries[term.removesuffix(".std")] for term in (more, less)])
    return f"deviation of {first} minus that of {second}: {_signed(deciding.value)} points"


def _words(keys: Sequence[EntryKey]) -> list[str]:
    """Return a name for each entry: its row, and what else differs between the entries."""
    texts = []
    for _, row, group, column in keys:
        words = [", ".join(row.split()) if "=" in row.split(" ")[0] else name_of(row).replace("_", " ")]
        if column == "delta_advantage":
            words = [f"the change of an advantage at {row}"]
        if len({key[2] for key in keys}) > 1 or (len(keys) == 1 and group):
            words.append(f"({group})")
        if len({key[3] for key in keys}) > 1:
            words.append(f"({column.replace('/', ' ')})")
        if not words[0]:
            words[0] = column
        texts.append(" ".join(words))
    known = {env: environment_name(env) for env in known_environments()}
    for env, name in known.items():
        texts = [text.replace(f"({env})", f"on {name}").replace(f"({env} small)", f"on {name}") for text in texts]
    return texts if len(set(texts)) == len(texts) else [" ".join(filter(None, key[1:])) for key in keys]


def _with(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}".rstrip()


def _signed(value: float) -> str:
    return f"{value:+.3g}"


def _interval(deciding: Estimated) -> str:
    low, high = deciding.interval
    return f" [{low:.3g}, {high:.3g}]" if isfinite(low) else ""
