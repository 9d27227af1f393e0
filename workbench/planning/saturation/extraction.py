"""Extraction of the smallest expression from an e-graph by an integer program; shared work counts once.

A variable for each option says whether it is taken. A root's e-class takes one option; an e-class that a taken option
needs takes one too. Cycles of e-classes are excluded lazily, when a solution contains one. Source: Yang et al.,
"Equality Saturation for Tensor Graph Superoptimization" (TENSAT), MLSys 2021, section 5.1, whose acyclicity
constraints use variables for a topological order instead. Solver: HiGHS, Huangfu and Hall 2018.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.planning.saturation.choices import Choices, Option
from workbench.planning.saturation.pruning import pruned, smallest_tree
from workbench.planning.solvers.binary_program import Row, minimize

Selection = Mapping[int, Option]  # by e-class
_Cost = Callable[[Option], int]


@dataclass(frozen=True)
class Extraction:
    """An option for each e-class that is needed, operands first.

    operators, elements: its cost; shared work counts once.
    lower_bound: a bound for the operators of any selection.
    tree_size:   the operators of the selection that is smallest if shared work counts at each use.
    """

    chosen: Selection
    operators: int
    elements: int
    lower_bound: int
    tree_size: int


def extract(choices: Choices, seconds: float) -> Extraction:
    """The selection with the fewest operators and, if all sizes are known, among those the fewest computed elements.

    seconds: the time limit, after which the best found is returned with the bound proven so far.
    """
    deadline = time.monotonic() + seconds
    smallest_as_tree = needed_of(smallest_tree(choices.options), choices.roots)
    best: Selection = min(needed_of(choices.start, choices.roots), smallest_as_tree, key=_cost)
    lower_bound = choices.lower_bound
    program = _Program(pruned(choices, _operators(best)), choices.roots)
    if lower_bound < _operators(best):
        best, bound = program.minimum(best, [], _operator_cost, deadline)
        lower_bound = max(lower_bound, bound)
    if choices.all_sizes_known and lower_bound == _operators(best) and program.differs_in_size:
        operator_limit = Row(program.row_of(_operator_cost), upper=lower_bound)
        best, _ = program.minimum(best, [operator_limit], _element_cost, deadline)
    return Extraction(best, _operators(best), _elements(best), lower_bound, _operators(smallest_as_tree))


def needed_of(selection: Selection, roots: Sequence[int]) -> dict[int, Option]:
    """The options that the roots need, operands first. Raises CycleError if an option needs itself."""
    done: dict[int, Option] = {}
    for root in roots:
        path = [root]
        while path:
            eclass = path[-1]
            needed = next((need for need in sorted(selection[eclass].needs) if need not in done), None)
            if needed is None:
                done.setdefault(eclass, selection[eclass])
                path.pop()
            elif needed in path:
                raise CycleError(path[path.index(needed) :])
            else:
                path.append(needed)
    return done


class CycleError(ValueError):
    """The e-classes of a selection form a cycle."""

    def __init__(self, cycle: Sequence[int]) -> None:
        super().__init__(f"e-classes {cycle} form a cycle")
        self.cycle = tuple(cycle)


def _cost(selection: Selection) -> tuple[int, int]:
    return _operators(selection), _elements(selection)


def _operators(selection: Selection) -> int:
    return sum(map(_operator_cost, selection.values()))


def _elements(selection: Selection) -> int:
    return sum(map(_element_cost, selection.values()))


def _operator_cost(option: Option) -> int:
    return option.cost


def _element_cost(option: Option) -> int:
    return option.elements


class _Program:
    """The choice as rows and columns: a column for each option."""

    def __init__(self, options: Mapping[int, Sequence[Option]], roots: Sequence[int]) -> None:
        self.options, self.roots = options, roots
        self.all = [option for alternatives in options.values() for option in alternatives]
        numbers = iter(range(len(self.all)))
        self.columns = {eclass: [next(numbers) for _ in alternatives] for eclass, alternatives in options.items()}
        self.rows = [*self._rows(), *self._two_cycles()]

    @property
    def differs_in_size(self) -> bool:
        """Whether some operators compute more elements than others."""
        return len({option.elements for option in self.all if option.cost}) > 1

    def row_of(self, cost: _Cost) -> dict[int, int]:
        return {column: cost(option) for column, option in enumerate(self.all) if cost(option)}

    def minimum(self, start: Selection, limits: Sequence[Row], cost: _Cost, deadline: float) -> tuple[Selection, int]:
        """The cheapest selection found, at least as cheap as `start`, and a lower bound of the cost of any."""
        best, bound = start, 0
        costs = [cost(option) for option in self.all]
        while (remaining := deadline - time.monotonic()) > 0:
            binary_solution = minimize(costs, [*self.rows, *limits], self._as_columns(best), remaining)
            bound = max(bound, binary_solution.lower_bound)
            if binary_solution.values is None:
                break
            values = binary_solution.values
            chosen_columns = {
                eclass: max(columns, key=values.__getitem__) for eclass, columns in self.columns.items() if columns
            }
            chosen = {eclass: self.all[column] for eclass, column in chosen_columns.items()}
            try:
                selection = needed_of(chosen, self.roots)
            except CycleError as error:
                self.rows.append(self._without_cycle(error.cycle))
                continue
            if sum(map(cost, selection.values())) <= sum(map(cost, best.values())):
                best = selection
            break
        return best, min(bound, sum(map(cost, best.values())))

    def _rows(self) -> Iterator[Row]:
        for eclass, columns in self.columns.items():
            yield Row(dict.fromkeys(columns, 1), 1 if eclass in self.roots else None, 1)
            users: dict[int, list[int]] = defaultdict(list)
            for column in columns:
                for needed in self.all[column].needs:
                    users[needed].append(column)
            for needed, using in users.items():
                yield Row({**dict.fromkeys(self.columns[needed], 1), **dict.fromkeys(using, -1)}, lower=0)

    def _two_cycles(self) -> Iterator[Row]:
        """Rows that exclude two e-classes that need each other."""
        needs = {
            eclass: {n for option in alternatives for n in option.needs}
            for eclass, alternatives in self.options.items()
        }
        for eclass, needed in needs.items():
            for other in needed:
                if eclass < other and eclass in needs[other]:
                    yield self._without_cycle((eclass, other))

    def _without_cycle(self, cycle: Sequence[int]) -> Row:
        """A row that forbids that each of these e-classes needs the next."""
        following = zip(cycle, (*cycle[1:], cycle[0]), strict=True)
        columns = [c for eclass, other in following for c in self.columns[eclass] if other in self.all[c].needs]
        return Row(dict.fromkeys(columns, 1), upper=len(cycle) - 1)

    def _as_columns(self, selection: Selection) -> list[float]:
        chosen = {id(option) for option in selection.values()}
        return [float(id(option) in chosen) for option in self.all]
