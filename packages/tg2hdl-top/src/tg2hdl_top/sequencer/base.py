"""A policy: its plan, its prediction, and its component."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from amaranth.lib.wiring import In, Member, Out

from tg2hdl_ir import registry
from tg2hdl_lower import Component, Decision, HardwarePlan, MemoryPlan
from tg2hdl_top.sequencer.plan import SequencerPlan, Sharing

__all__ = [
    "Arrangement",
    "RunSequencerComponent",
    "Sequencer",
    "SequencerComponent",
    "Timeline",
    "sequencer_named",
]


@dataclass(frozen=True)
class Timeline:
    """Predicted times of a run (clock cycles after `start`).

    Parameters
    ----------
    starts, ends : tuple of int
        Start pulse and done pulse of each kernel.
    interval : int
        Cycles from `start` to the next one, if runs follow each other without waiting for the host.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    interval: int

    @property
    def latency(self) -> int:
        """Cycles from `start` to `done`."""
        return max(self.ends)


class SequencerComponent(Component):
    """Starts the kernels of a design.

    Parameters
    ----------
    kernels : int
    windows : int
        Windows of the plan, see `SequencerPlan.windows`.

    Members
    -------
    start : In(1)
        One-cycle pulse while idle.
    done : Out(1)
        One-cycle pulse at the end of the run.
    busy : Out(1)
        From the cycle after `start` to that of `done`.
    kernel_start : Out(1), array
    kernel_done, kernel_busy : In(1), array
    ready : Out(1)
        Whether a start in this cycle begins a run; absent where every start while idle does.
    window : Out(1), array
        High from the first to the last cycle of each window; absent where there are none.
    """

    def __init__(self, kernels: int, windows: int = 0, more: Mapping[str, Member] | None = None) -> None:
        members: dict[str, Member] = {
            "start": In(1),
            "done": Out(1),
            "busy": Out(1),
            "kernel_start": Out(1).array(kernels),
            "kernel_done": In(1).array(kernels),
            "kernel_busy": In(1).array(kernels),
        }
        if windows:
            members["window"] = Out(1).array(windows)
        super().__init__(members | dict(more or {}))


class RunSequencerComponent(SequencerComponent):
    """Starts cores, some of them several times: the arrays are indexed by core.

    Parameters
    ----------
    order : sequence of int
        Core of each run, in execution order.

    Members
    -------
    following : Out
        Number of the run that begins with the next `advance`.
    advance : Out(1)
        A run begins: the start pulse of its core.
    may_start : In(1)
        Whether the following run may begin; absent where none waits.
    """

    def __init__(self, order: Sequence[int], *, waits: bool = False) -> None:
        self.order = tuple(order)
        bits = max(1, (len(order) - 1).bit_length())
        more: dict[str, Member] = {"following": Out(bits), "advance": Out(1)}
        super().__init__(1 + max(order), more=more | ({"may_start": In(1)} if waits else {}))


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The decision of a policy: its plan, the memories, to which it may add read ports, and its reason for a choice."""

    plan: SequencerPlan
    memories: tuple[MemoryPlan, ...]
    decision: Decision | None = None


class Sequencer(ABC):
    """Descriptor of a policy."""

    shares_cores: ClassVar[bool] = False
    """Whether a core may run several times; `run_component` is then defined."""

    can_wait: ClassVar[bool] = False
    """Whether a run may wait for weights from outside the chip; `waiting_component` is then defined."""

    follows: ClassVar[bool] = False
    """Whether a kernel may keep the pace of the one before it and run at the same time."""

    def arrange(
        self, policy: str, plans: Sequence[HardwarePlan], memories: Sequence[MemoryPlan], sharing: Sharing
    ) -> Arrangement:
        """Decide when kernels start; nothing is decided before a run unless a policy says otherwise.

        Parameters
        ----------
        policy : str
            Name under which the user chose it.
        plans : sequence of HardwarePlan
            Of the kernels in execution order.
        memories : sequence of MemoryPlan
            Of the design; a policy may change their ports and banks.
        sharing : Sharing
            Hardware that kernels share.

        Raises
        ------
        UnsupportedError
            When the policy cannot start these kernels.
        """
        return Arrangement(SequencerPlan(policy), tuple(memories))

    def choose(
        self,
        plans: Sequence[HardwarePlan],
        orders: Callable[[int, Collection[int]], Iterable[HardwarePlan]],
        arrange: Callable[[Sequence[HardwarePlan]], Arrangement],
    ) -> list[HardwarePlan]:
        """Choose the order of the steps of each kernel; that of its own plan unless a policy says otherwise.

        Parameters
        ----------
        orders : callable
            Other plans of a kernel by its number, and the cycles of kernels that it may keep pace with.
        arrange : callable
            Gives the result of `arrange` for a design of these plans.
        """
        return list(plans)

    @abstractmethod
    def predict(self, cycles: Sequence[int], plan: SequencerPlan) -> Timeline:
        """Times of a run, given the cycles of each kernel.

        Parameters
        ----------
        cycles : sequence of int
            Of each kernel.
        plan : SequencerPlan
            From `arrange`.
        """

    def run_component(self, order: Sequence[int], plan: SequencerPlan) -> RunSequencerComponent:
        """Hardware for runs of these cores, in execution order.

        Parameters
        ----------
        order : sequence of int
            Core of each run.
        plan : SequencerPlan
            From `arrange`.
        """
        raise NotImplementedError

    def waiting_component(self, order: Sequence[int]) -> RunSequencerComponent:
        """Hardware for runs of these cores; each run may have to wait."""
        raise NotImplementedError

    @abstractmethod
    def component(self, kernels: int, plan: SequencerPlan) -> SequencerComponent:
        """Hardware for this number of kernels.

        Parameters
        ----------
        kernels : int
            Number of kernels.
        plan : SequencerPlan
            From `arrange`.
        """


def sequencer_named(name: str) -> Sequencer:
    """The policy of a name.

    Raises
    ------
    InputError
        When no plugin registers it.
    """
    definition = registry().sequencer(name)
    return registry().make(definition, "sequencer", Sequencer)  # type: ignore[type-abstract]
