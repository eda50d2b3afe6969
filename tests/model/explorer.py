"""Every order in which things can happen, and the shortest way to what must not be."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True)
class Explored(Generic[State]):
    """How many states there are, and the shortest way to what must not be, if there is one."""

    states: int
    wrong: str | None = None
    way: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For a failed assertion: what is wrong, and how it comes to that."""
        steps = "".join(f"\n  {number}. {step}" for number, step in enumerate(self.way, 1))
        return f"{self.states} states: {self.wrong or 'nothing wrong'}{steps}"


def explore(
    start: State,
    steps: Callable[[State], Iterable[tuple[str, State]]],
    wrong: Callable[[State, bool], str | None],
) -> Explored[State]:
    """Visit all states, the nearest first; `wrong` is told whether a state is one of rest."""
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        following = list(steps(state))
        trouble = wrong(state, not following)
        if trouble is not None:
            return Explored(len(came_from), trouble, _way(came_from, state))
        for label, after in following:
            if after not in came_from:
                came_from[after] = (state, label)
                waiting.append(after)
    return Explored(len(came_from))


def _way(came_from: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    labels = []
    before = came_from[state]
    while before is not None:
        state, label = before
        labels.append(label)
        before = came_from[state]
    return tuple(reversed(labels))
