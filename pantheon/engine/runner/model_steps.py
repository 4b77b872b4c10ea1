"""The steps that one model needs, to be compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pantheon.engine.model import Architecture, ModelConfig, Parameters
from pantheon.engine.runner.adjustment import bias_vector
from pantheon.engine.runner.arguments import StepArguments
from pantheon.engine.runner.capacity import Capacity
from pantheon.engine.runner.host_layout import HostLayout
from pantheon.engine.runner.on_dies import Gives, OnDies
from pantheon.engine.runner.step_programs import Step
from pantheon.engine.runner.steps import (
    DeviceState,
    copy_page_step,
    copy_state_step,
    decode_step,
    prefill_step,
    read_page_step,
    read_state_step,
    start_row_step,
    step_of_model,
    write_page_step,
    write_state_step,
)


def decode_name(batch: int) -> str:
    """What the decode step of so many entries is called."""
    return f"decode {batch}"


class ModelSteps:
    """Lists the steps and counts how often they are traced."""

    def __init__(
        self,
        architecture: Architecture,
        config: ModelConfig,
        capacity: Capacity,
        on_dies: OnDies | None,
        arguments: StepArguments,
        host: HostLayout,
    ) -> None:
        """Of one model; see `Runner`."""
        self._architecture = architecture
        self._config = config
        self._capacity = capacity
        self._on_dies = on_dies
        self._arguments = arguments
        self._host = host
        self.traces = 0
        """How often a step was traced."""

    @property
    def scope(self) -> str:
        """What the steps depend on beside their code and their arguments."""
        devices = [] if self._on_dies is None else self._on_dies.devices
        return f"{self._architecture.name} {self._config} {self._capacity} {devices}"

    def all(
        self, state: DeviceState, parameters: Parameters, batches: tuple[int, ...]
    ) -> list[Step]:
        """The steps with arguments of the shapes that they are called with.

        Args:
            batches: entries of the decode steps, rising.
        """
        host, number = self._host, np.int32(0)
        page = host.page_arrays(host.empty_page(), state)
        bias = bias_vector((), self._config.vocabulary)
        prefill = self._arguments.prefill([0], 0, (0,), 0)

        def step(
            name: str,
            function: Callable[..., Any],
            *arguments: Any,
            donates: bool = True,
            gives: Gives = Gives.STATE,
            first: bool = False,
            replayed: bool = False,
        ) -> Step:
            on_dies = self._on_dies
            results = None if on_dies is None else on_dies.results(gives, state)
            counted = self._counted(function)
            return Step(name, counted, donates, (state, *arguments), first, replayed, results)

        def of_model(name: str, function: Callable[..., Any], *arguments: Any, **how: bool) -> Step:
            bound = self._of_model(function, parameters)
            return step(name, bound, parameters, *arguments, gives=Gives.BOTH, **how)

        steps = [
            of_model("prefill", prefill_step, *prefill, first=True),
            step("start row", start_row_step, number, bias, first=True),
            *(
                of_model(
                    decode_name(batch),
                    decode_step,
                    *self._arguments.padding(batch),
                    first=batch == batches[0],
                    replayed=True,
                )
                for batch in batches
            ),
            step("copy page", copy_page_step, number, number),
            step("read page", read_page_step, number, donates=False, gives=Gives.VALUE),
            step("write page", write_page_step, number, page),
        ]
        if state.cache.recurrent:
            recurrent = host.state_arrays(host.empty_state())
            steps += [
                step("copy state", copy_state_step, number, number, np.bool_(False)),
                step("read state", read_state_step, number, donates=False, gives=Gives.VALUE),
                step("write state", write_state_step, number, recurrent),
            ]
        return steps

    def _of_model(self, step: Callable[..., Any], parameters: Parameters) -> Callable[..., Any]:
        """A step of the model with the state as its first argument."""
        on_dies, page_size = self._on_dies, self._capacity.page_size
        if on_dies is None:
            return step_of_model(self._architecture, self._config, page_size, step)
        own = step_of_model(self._architecture, on_dies.local, page_size, step)
        return on_dies.spread(own, parameters)

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def traced(*arguments: Any) -> Any:
            self.traces += 1
            return step(*arguments)

        return traced
