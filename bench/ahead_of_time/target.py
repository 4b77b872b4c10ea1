"""An H200 that is not there, as XLA wants it described, and the tools that XLA calls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import triton

H200: Final = """gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 151397597184
  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 feature_extension: ACCELERATED_FEATURES }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  driver_version: "12.9.0"
  runtime_version: "12.9.0"
  compile_time_toolkit_version: "12.9.0"
  dnn_version: "9.10.0"
  name: "NVIDIA H200"
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: "NVIDIA H200"
"""
"""A `GpuTargetConfigProto` of XLA as text: the device's limits as CUDA states them."""


def tools(folder: Path) -> Path:
    """Make of a folder what XLA takes for an installation of CUDA, of links to what Triton brings,
    and give it back."""
    brought = Path(triton.__file__).parent / "backends" / "nvidia"
    for place, source in (
        (folder / "bin" / "ptxas", brought / "bin" / "ptxas"),
        (folder / "nvvm" / "libdevice" / "libdevice.10.bc", brought / "lib" / "libdevice.10.bc"),
    ):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(source)
    return folder


def use_tools(folder: Path) -> None:
    """Tell XLA where assembler and device library are. Before JAX makes its first client.

    Args:
        folder: see `tools`.
    """
    flags = f"--xla_gpu_cuda_data_dir={tools(folder)} --xla_gpu_autotune_level=0"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    os.environ["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


def devices(count: int) -> Sequence[Any]:
    """Those of one host that has so many."""
    from jax.experimental import topologies

    topology = topologies.get_topology_desc("", "cuda", target_config=H200, topology=f"1x1x{count}")
    return topology.devices
