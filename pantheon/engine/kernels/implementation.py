"""By whose kernels the operations of a model are computed."""

from __future__ import annotations

from enum import Enum


class Implementation(Enum):
    """One choice for all operations of a model. Each names in its `CHOSEN` what it makes of it."""

    NATIVE = "native"
    """The C++ kernels, which must be there, and plain XLA for what they do not have."""
    XLA = "xla"
    """Plain XLA: no kernel of ours, on any platform that JAX has."""
    GPU = "gpu"
    """Pallas and Triton kernels, which compile for NVIDIA's GPUs and nothing else."""
    GPU_INTERPRETED = "gpu, interpreted"
    """For tests on a CPU: the Pallas kernels step by step, the products with raw blocks in XLA."""

    @property
    def is_gpu(self) -> bool:
        """Whether operations are those for GPUs, interpreted or not."""
        return self in (Implementation.GPU, Implementation.GPU_INTERPRETED)

    @property
    def is_interpreted(self) -> bool:
        """Whether they are interpreted."""
        return self is Implementation.GPU_INTERPRETED

    @property
    def has_kernels(self) -> bool:
        """Whether kernels compute what they can: the same bits for a row in batches of any size.

        What XLA computes beside them is then held to that too; see `in_fixed_batch`.
        """
        return self is not Implementation.XLA
