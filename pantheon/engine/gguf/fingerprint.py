"""One number that tells a model's weights apart, from the content of its file."""

import hashlib

from pantheon.engine.gguf.reader import GGUFFile
from pantheon.engine.gguf.tensor import Tensor

_BITS = 53
"""Every integer of so many bits is exact in a double, which is what JSON readers make of it."""


def weights_version(*files: GGUFFile, quantized: bool = False) -> int:
    """A number in [0, 2**53) that is equal for equal weights, on every machine and start.

    It covers what the keys and values of a cache depend on: names, types, shapes and data of all
    tensors, and the metadata of the architecture (such as the base of the rotary frequencies).
    Where the file lies, the order of its tensors, how they are split over files, its chat template
    and its vocabulary do not matter. The files are read once, through their maps: no memory is
    taken beside them, and other threads run meanwhile, since hashing does not hold the
    interpreter lock. Reading them in this way also brings them into the page cache.

    Args:
        files: the files of one model, all of its shards.
        quantized: whether its weights are made INT8, which are other weights.
    """
    digest = hashlib.blake2b(digest_size=8, person=b"weights")
    if quantized:
        _add(digest, b"int8")
    for prefix in sorted({f"{file.architecture}." for file in files}):
        for file in files:
            for key, value in file.metadata.encoded(prefix):
                _add(digest, key.encode(), value)
    tensors = {name: file for file in files for name in file.tensors}
    for name in sorted(tensors):
        tensor = tensors[name].tensor(name)
        _add(digest, name.encode(), _shape(tensor), tensor.packed.reshape(-1).data)
    return int.from_bytes(digest.digest(), "little") >> (64 - _BITS)


def _shape(tensor: Tensor) -> bytes:
    return f"{int(tensor.type)}:{'x'.join(map(str, tensor.shape))}".encode()


def _add(digest: "hashlib.blake2b", *parts: bytes | memoryview) -> None:
    """Each part goes in behind its length, so that no two lists of parts look alike."""
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
