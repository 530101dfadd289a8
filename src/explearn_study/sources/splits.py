"""Splitting and subsampling by seed, independent of the order of the rows.

Texts are ordered by the SHA-256 of "SEED:ID", and a sample takes the first texts of each label in that order. So a
smaller sample is part of a larger one with the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from explearn.core.errors import DataError, ParamsError
from explearn.core.examples import Split
from explearn.core.seeds import hash_order


def apportion(total: int, sizes: Mapping[str, int], limits: Mapping[str, int] | None = None) -> dict[str, int]:
    """Share a total among labels in proportion to their sizes, by largest remainder.

    Ties go to the earlier label. A label gets at least one if the total and its limit allow it. The shares add up to
    the total, or to the sum of the limits if that is less.

    Args:
        total: what is shared.
        sizes: label -> size.
        limits: label -> most that it gets. None: its size.
    """
    limits = limits or sizes
    shares = dict.fromkeys(sizes, 0)
    whole = sum(sizes.values())
    total = min(total, sum(limits.values()))
    if not total:
        return shares
    quotas = {label: Fraction(total * size, whole) for label, size in sizes.items()}
    for label, quota in quotas.items():
        shares[label] = min(int(quota), limits[label])
    while (left := total - sum(shares.values())) > 0:
        open_labels = [label for label in shares if shares[label] < limits[label]]
        by_remainder = sorted(open_labels, key=lambda label: shares[label] - quotas[label])
        for label in by_remainder[:left]:
            shares[label] += 1
    for label in shares:
        largest = max(shares, key=lambda other: shares[other])
        if not shares[label] and limits[label] and shares[largest] > 1:
            shares[label] = 1
            shares[largest] -= 1
    return shares


def _by_label(labels: Mapping[str, str], seed: int) -> dict[str, list[str]]:
    """Return label (sorted) -> ids in hash order."""
    groups: dict[str, list[str]] = {label: [] for label in sorted(set(labels.values()))}
    for item in hash_order(labels, seed):
        groups[labels[item]].append(item)
    return groups


def carve(
    labels: Mapping[str, str], fractions: Mapping[Split, float], seed: int, whole: Split = "train"
) -> dict[str, Split]:
    """Carve new splits out of a split, stratified by label.

    Args:
        labels: id -> label of every text of the split.
        fractions: new split -> its fraction of all of these texts.
        seed: seed of the draw.
        whole: the split.

    Returns:
        Id -> split, `whole` for the remaining texts. Every label keeps at least one text there.

    Raises:
        ParamsError: the fractions leave nothing.
        DataError: there are too few texts.
    """
    total = sum(Fraction(str(fraction)) for fraction in fractions.values())
    if total >= 1:
        raise ParamsError(f"carve_validation and carve_test add up to {float(total)}; expected less than 1")
    groups = _by_label(labels, seed)
    sizes = {label: len(ids) for label, ids in groups.items()}
    free = {label: size - 1 for label, size in sizes.items()}
    assigned: dict[str, Split] = dict.fromkeys(labels, whole)
    for split, fraction in fractions.items():
        # A decimal fraction is taken as written: 0.1 is one tenth. Halves round up, and no requested split is empty.
        wanted = max(1, int(Fraction(str(fraction)) * len(labels) + Fraction(1, 2)))
        if wanted > sum(free.values()):
            raise DataError(
                f"{whole} has {len(labels)} different texts; expected enough to set {wanted} aside as {split}"
            )
        for label, share in apportion(wanted, sizes, free).items():
            for item in groups[label][:share]:
                assigned[item] = split
            groups[label] = groups[label][share:]
            free[label] -= share
    return assigned


def subsample(labels: Mapping[str, str], limit: int | None, seed: int) -> set[str]:
    """Return the ids to keep of one split, labels in proportion.

    Args:
        labels: id -> label of every text of the split.
        limit: most texts to keep; None keeps all.
        seed: seed of the draw.
    """
    if limit is None:
        return set(labels)
    groups = _by_label(labels, seed)
    shares = apportion(limit, {label: len(ids) for label, ids in groups.items()})
    drawn: set[str] = set()
    for label, ids in groups.items():
        drawn.update(ids[: shares[label]])
    return drawn
