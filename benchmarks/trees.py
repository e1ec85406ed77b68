"""Gradient-boosted decision trees with NumPy, for the fits of this directory."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

TREES = 80
DEPTH = 3
RATE = 0.12
"""Share of a tree's best step that is taken."""

STEADY = 1.0
"""Added to the curvature of a leaf, so that small leaves take small steps."""

FEWEST = 2.0
"""Least curvature of a leaf, about four times its answers in doubt."""

BINS = 32
ROWS = 0.7
"""Share of the rows that a tree is fitted to."""

COLUMNS = 0.6
"""Share of the columns that a tree may use."""

Tree = float | tuple[int, float, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A sum of trees that gives log-odds. A tree is a leaf, or (column, bound, up to it, over it)."""

    bias: float
    trees: list[Tree]

    @classmethod
    def fit(cls, values: Any, labels: Any, weights: Any, *, seed: int = 0) -> Self:
        """Fit a forest to labels of 0 and 1; rows and columns are drawn with the seed."""
        draw = np.random.default_rng(seed)
        shares = np.linspace(0, 1, BINS + 1)[1:-1]
        edges = [np.unique(np.quantile(column, shares)) for column in values.T]
        bins = np.stack(
            [np.searchsorted(edge, column) for edge, column in zip(edges, values.T, strict=True)], 1
        )
        mean = np.average(labels, weights=weights)
        forest = cls(bias=float(np.log(mean / (1 - mean))), trees=[])
        log_odds = np.full(len(labels), forest.bias)
        for _ in range(TREES):
            chance = 1 / (1 + np.exp(-log_odds))
            drawn = (draw.random(len(labels)) < ROWS).nonzero()[0]
            columns = draw.choice(len(edges), max(1, int(len(edges) * COLUMNS)), replace=False)
            grown = _Growth(
                bins=bins,
                edges=edges,
                columns=columns,
                slope=weights * (chance - labels),
                curve=weights * chance * (1 - chance),
            )
            tree = grown.tree(drawn, DEPTH)
            forest.trees.append(tree)
            log_odds += _apply(tree, values)
        return forest

    def log_odds(self, values: Any) -> Any:
        """Return the log-odds of each row."""
        return self.bias + sum(_apply(tree, values) for tree in self.trees)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    bins: Any
    edges: list[Any]
    columns: Any
    slope: Any
    curve: Any

    def tree(self, rows: Any, depth: int) -> Tree:
        slope, curve = self.slope[rows].sum(), self.curve[rows].sum()
        leaf = float(-RATE * slope / (curve + STEADY))
        if depth == 0 or curve < 2 * FEWEST:
            return leaf
        gains = [(*self._best(rows, column, slope, curve), int(column)) for column in self.columns]
        gain, bin_, column = max(gains)
        if gain <= 0:
            return leaf
        low = self.bins[rows, column] <= bin_
        return (
            column,
            float(self.edges[column][bin_]),
            self.tree(rows[low], depth - 1),
            self.tree(rows[~low], depth - 1),
        )

    def _best(self, rows: Any, column: int, slope: float, curve: float) -> tuple[float, int]:
        """Return the gain of the best split of a column, and the last bin of its lower side."""
        size = len(self.edges[column])
        if not size:
            return 0.0, 0
        bins = self.bins[rows, column]
        low_slope = np.cumsum(np.bincount(bins, self.slope[rows], size + 1))[:size]
        low_curve = np.cumsum(np.bincount(bins, self.curve[rows], size + 1))[:size]
        gain = (
            low_slope**2 / (low_curve + STEADY)
            + (slope - low_slope) ** 2 / (curve - low_curve + STEADY)
            - slope**2 / (curve + STEADY)
        )
        gain[(low_curve < FEWEST) | (curve - low_curve < FEWEST)] = 0.0
        return float(gain.max()), int(gain.argmax())


def _apply(tree: Tree, values: Any) -> Any:
    if isinstance(tree, float):
        return np.full(len(values), tree)
    column, bound, low, high = tree
    return np.where(values[:, column] <= bound, _apply(low, values), _apply(high, values))
