"""Counter-based random streams: noise = f(seed, stream, item, sample, position). No generator state exists.

The function is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), vectorised over
counters. A stream is named by a string; an item (a prompt, a parameter, a row) by a string or a whole number. The
value of a draw depends on nothing else: not on the batch, the order, the engine, or what was drawn before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
ROUNDS = 10
_LAST = np.nextafter(1.0, 0.0)


def philox4x32(counter: Sequence[ArrayLike], key: tuple[int, int]) -> list[NDArray[np.uint64]]:
    """Philox4x32-10 of four 32-bit counter words (arrays that broadcast) under a key of two 32-bit words."""
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(c, dtype=np.uint64) for c in counter))
    k0, k1 = key
    for _ in range(ROUNDS):
        p0 = c0 * _MULTIPLIERS[0]
        p1 = c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (p1 >> _SHIFT) ^ c1 ^ np.uint64(k0), p1 & _LOW, (p0 >> _SHIFT) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def digest(*parts: object) -> int:
    """A 64-bit hash of the parts' text, the same on every machine."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def item_keys(items: ArrayLike | Sequence[str]) -> NDArray[np.uint64]:
    """64-bit counters of items: whole numbers stand for themselves, strings for their digest."""
    array = np.asarray(items)
    if array.dtype.kind in "iu":
        if array.size and array.min() < 0:
            raise ValueError(f"item {array.min()}: expected strings or whole numbers >= 0")
        return array.astype(np.uint64)
    if array.dtype.kind != "U":
        raise ValueError(f"items of type {array.dtype}: expected strings or whole numbers below 2^63")
    return np.array([digest(item) for item in array.ravel()], dtype=np.uint64).reshape(array.shape)


def uniform(seed: int, stream: str, items: ArrayLike, sample: ArrayLike = 0, position: ArrayLike = 0) -> NDArray:
    """Uniform float64 in the open interval (0, 1), 53 bits; items, sample and position broadcast.

    items: strings or whole numbers >= 0; sample, position: whole numbers in [0, 2^32). Raises ValueError otherwise.
    """
    for name, counter in (("sample", np.asarray(sample)), ("position", np.asarray(position))):
        if counter.size and not (counter.min() >= 0 and counter.max() < 2**32):
            raise ValueError(f"{name} from {counter.min()} to {counter.max()}: expected 0 to 2^32 - 1")
    key = digest(seed, stream)
    item = item_keys(items)
    words = philox4x32((item & _LOW, item >> _SHIFT, sample, position), (key & 0xFFFFFFFF, key >> 32))
    bits = ((words[0] << _SHIFT) | words[1]) >> np.uint64(11)
    return np.minimum((bits.astype(np.float64) + 0.5) * 2.0**-53, _LAST)


def normal(seed: int, stream: str, items: ArrayLike, sample: ArrayLike = 0, position: ArrayLike = 0) -> NDArray:
    """Standard normal float64 by the inverse distribution function of `uniform`."""
    from scipy.special import ndtri

    return ndtri(uniform(seed, stream, items, sample, position))


def permutation(seed: int, stream: str, size: int, epoch: int = 0) -> NDArray[np.int64]:
    """A permutation of range(size), another one for every epoch."""
    return np.argsort(uniform(seed, stream, np.arange(size), epoch), kind="stable")


def batch_indices(seed: int, stream: str, size: int, batch: int, step: int) -> NDArray[np.int64]:
    """The step's batch out of range(size): distinct indices, reshuffled every epoch; incomplete batches are left out.

    Raises ValueError when batch > size.
    """
    if not 1 <= batch <= size:
        raise ValueError(f"a batch of {batch} out of {size}: expected 1 to {size}")
    epoch, place = divmod(step, size // batch)
    return permutation(seed, stream, size, epoch)[place * batch : (place + 1) * batch]
