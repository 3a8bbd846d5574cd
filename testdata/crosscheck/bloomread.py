"""Read Bloom filters and ask them for keys; written from docs/FORMAT.md alone.

    python3 bloomread.py [--key HEX32] FILE... < QUERIES

A query is a line with the index of a FILE, from 0, a space, and the bytes of
a key in hexadecimal; the answer is a line with 1 if the key may be in it, else
0. --key is the key of filters that use SipHash.
"""

import argparse
import math
import struct
import sys

MAGIC = b"\x89BF\n"
FILTER, SCALABLE, COUNTING, CUCKOO, BLOCKED = range(1, 6)
MURMUR3, XXHASH, REDIS, SIPHASH = range(4)
MASK = 2**64 - 1
REDIS_SEED = 0xc6a4a7935bd1e995  # also its multiplier
FINGERPRINTED = b"redbloom-go/bloom: fingerprint of a SipHash key"
SPREAD = 0xe220a839, 0x6e789e6b, 0x06c45d19, 0xf88bb8a9


class FormatError(ValueError):
    """The data is not a record that the format allows."""


def check(condition, message):
    if not condition:
        raise FormatError(message)


# Checksum and hashes. Words are kept below 2**64 wherever that matters.

def _crc_entry(c):
    for _ in range(8):
        c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    return c


CRC_TABLE = [_crc_entry(i) for i in range(256)]


def crc32c(data):
    c = 0xffffffff
    for byte in data:
        c = c >> 8 ^ CRC_TABLE[(c ^ byte) & 255]
    return c ^ 0xffffffff


def word(data):
    return int.from_bytes(data, "little")


def words(data):
    return [word(data[i:i + 8]) for i in range(0, len(data), 8)]


def field(data, i, width):
    """Number i of the fields of up to 33 bits that data is made of."""
    at = i * width
    return word(data[at // 8:at // 8 + 5]) >> at % 8 & 2**width - 1


def span(bits):
    """The bytes of the whole words that hold so many bits."""
    return -(-bits // 64) * 8


def rotl(x, n):
    x &= MASK
    return (x << n | x >> 64 - n) & MASK


def murmur3(key, seed):
    c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f

    def fmix(x):
        x = (x ^ x >> 33) * 0xff51afd7ed558ccd & MASK
        x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53 & MASK
        return x ^ x >> 33

    h1 = h2 = seed
    whole = len(key) & ~15
    for i in range(0, whole, 16):
        a, b = words(key[i:i + 16])
        h1 ^= rotl(a * c1, 31) * c2 & MASK
        h1 = (rotl(h1, 27) + h2) * 5 + 0x52dce729 & MASK
        h2 ^= rotl(b * c2, 33) * c1 & MASK
        h2 = (rotl(h2, 31) + h1) * 5 + 0x38495ab5 & MASK
    # Missing bytes count as 0, and a or b of 0 changes nothing.
    h1 ^= rotl(word(key[whole:whole + 8]) * c1, 31) * c2 & MASK
    h2 ^= rotl(word(key[whole + 8:]) * c2, 33) * c1 & MASK
    h1, h2 = h1 ^ len(key), h2 ^ len(key)
    h1 = h1 + h2 & MASK
    h2 = h2 + h1 & MASK
    h1, h2 = fmix(h1), fmix(h2)
    h1 = h1 + h2 & MASK
    return h1, h2 + h1 & MASK


def xxhash(key, seed):
    p1, p2, p3 = 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9
    p4, p5 = 0x85ebca77c2b2ae63, 0x27d4eb2f165667c5

    def step(v, a):
        return rotl(v + a * p2, 31) * p1 & MASK

    i = 0
    if len(key) >= 32:
        v = [seed + p1 + p2, seed + p2, seed, seed - p1]
        while i + 32 <= len(key):
            v = [step(x, a) for x, a in zip(v, words(key[i:i + 32]))]
            i += 32
        h = sum(rotl(x, n) for x, n in zip(v, (1, 7, 12, 18)))
        for x in v:
            h = (h & MASK ^ step(0, x)) * p1 + p4
    else:
        h = seed + p5
    h = h + len(key) & MASK
    while i + 8 <= len(key):
        h = rotl(h ^ step(0, word(key[i:i + 8])), 27) * p1 + p4 & MASK
        i += 8
    if i + 4 <= len(key):
        h = rotl(h ^ word(key[i:i + 4]) * p1, 23) * p2 + p3 & MASK
        i += 4
    for byte in key[i:]:
        h = rotl(h ^ byte * p5, 11) * p1 & MASK
    h = (h ^ h >> 33) * p2 & MASK
    h = (h ^ h >> 29) * p3 & MASK
    h1 = h ^ h >> 32

    x = h1 + 0x9e3779b97f4a7c15 & MASK
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & MASK
    x = (x ^ x >> 27) * 0x94d049bb133111eb & MASK
    return h1, x ^ x >> 31


def murmur64a(key, seed):
    q = REDIS_SEED
    h = (seed ^ len(key) * q) & MASK
    whole = len(key) & ~7
    for a in words(key[:whole]):
        a = a * q & MASK
        h = (h ^ (a ^ a >> 47) * q) * q & MASK
    if whole < len(key):
        h = (h ^ word(key[whole:])) * q & MASK
    h = (h ^ h >> 47) * q & MASK
    return h ^ h >> 47


def siphash(key, secret):
    k0, k1 = words(secret)
    v0, v1 = k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee
    v2, v3 = k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573

    def rounds(n):
        nonlocal v0, v1, v2, v3
        for _ in range(n):
            v0 = v0 + v1 & MASK
            v1, v0 = rotl(v1, 13) ^ v0, rotl(v0, 32)
            v2 = v2 + v3 & MASK
            v3 = rotl(v3, 16) ^ v2
            v0 = v0 + v3 & MASK
            v3 = rotl(v3, 21) ^ v0
            v2 = v2 + v1 & MASK
            v1, v2 = rotl(v1, 17) ^ v2, rotl(v2, 32)

    whole = len(key) & ~7
    last = word(key[whole:]) | (len(key) & 255) << 56
    for a in words(key[:whole]) + [last]:
        v3 ^= a
        rounds(2)
        v0 ^= a
    v2 ^= 0xee
    rounds(4)
    h1 = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xdd
    rounds(4)
    return h1, v0 ^ v1 ^ v2 ^ v3


class Record:
    """A filter, read from the bytes of one record and nothing after it."""

    def __init__(self, data, secret=None):
        check(data[:4] == MAGIC, "not a filter")
        check(data[4:5] == b"\1", "unknown version")
        check(len(data) >= 128, "shorter than a header")
        self.kind, self.scheme, flags = data[5:8]
        (size, self.seed, self.capacity, self.rate, self.keys,
         length) = struct.unpack_from("<QQQdQQ", data, 8)
        check(size % 64 == 0 and 128 <= size <= min(2**24, len(data)),
              "length of the header")
        head = data[:size - 4]
        check(crc32c(head) == word(data[size - 4:size]), "header checksum")
        check(FILTER <= self.kind <= BLOCKED and self.scheme <= SIPHASH,
              "unknown kind or scheme")
        check(flags == 0 or flags == 1
              and self.kind not in (SCALABLE, CUCKOO), "flags")
        check(0 <= self.rate <= 1, "rate")

        self.secret, self.redis = secret, self.scheme == REDIS
        check(self.seed == 0 or not self.redis, "seed")
        if self.scheme == SIPHASH:
            check(secret is not None, "needs the SipHash key")
            check(siphash(FINGERPRINTED, secret)[0] == self.seed,
                  "another SipHash key")

        # read returns the end of the parameters, and for each part the bits
        # that it uses and its bytes.
        read = {SCALABLE: self._read_scalable, CUCKOO: self._read_cuckoo,
                BLOCKED: self._read_blocked}.get(self.kind, self._read_filter)
        end, sizes = read(head)
        check(size == -(-(end + 4) // 64) * 64, "length of the header")
        check(not any(head[end:]), "padding of the header")
        check(length == sum(n for _, n in sizes), "length of the bits")
        check(len(data) == size + length + 4, "length of the record")
        check(crc32c(data[size:-4]) == word(data[-4:]), "bits checksum")
        self.parts = []
        for used, n in sizes:
            part, size = data[size:size + n], size + n
            check(word(part[used // 8:]) >> used % 8 == 0, "padding of bits")
            self.parts.append(part)

    def _read_filter(self, head):
        m, k = struct.unpack_from("<QI", head, 56)
        check(1 <= m <= 2**48 and 1 <= k <= 2000, "bits or positions")
        self.shapes = [(m, k)]
        bits = 4 * m if self.kind == COUNTING else m
        return 68, [(bits, span(bits))]

    def _read_blocked(self, head):
        check(not self.redis, "Blocked in the scheme RedisBloom")
        self.lines, self.rows = struct.unpack_from("<QI", head, 56)
        check(1 <= self.lines <= 2**39 and 1 <= self.rows <= 3,
              "lines or rows")
        return 68, [(512 * self.lines, 64 * self.lines)]

    def _read_scalable(self, head):
        redis = self.redis
        tightening, _limit, keys, links, options, growth = struct.unpack_from(
            "<dQQIII", head, 56)
        check(0 < self.rate < 1, "rate")
        check(tightening == 0.5 if redis else 0 < tightening < 1, "tightening")
        check(keys == self.keys, "number of keys")
        check(options & 4 if redis else options == 0, "options")
        check((options & 8 or 1 <= growth <= 32768) if redis
              else growth < 2**31, "growth")
        end = 92 + 53 * links
        check(links >= 1 and end <= len(head) and (redis or links <= 1024),
              "number of links")
        self.shapes, sizes = [], []
        for at in range(92, end, 53):
            (size, bits, count, rate, per_key, k, capacity,
             n) = struct.unpack_from("<QQQddIQB", head, at)
            check(1 <= bits <= 2**48 and (redis or bits % 64 == 0)
                  and size in (-(-bits // 8), span(bits)), "size of a link")
            check(0 < rate < 1 and 1 <= k <= 2000, "rate or positions")
            check(capacity >= 1 and (redis or count <= capacity)
                  and (at > 92 or capacity == self.capacity), "capacity")
            check(0 < per_key < math.inf
                  and k == math.ceil(per_key * 0.693147180559945) if redis
                  else not any(head[at + 32:at + 40]), "bits a key")
            m = 2**n if n else bits
            check(n == 0 or redis and m <= bits and not options & 1,
                  "exponent of a link")
            keys -= count
            self.shapes.append((m, k))
            sizes.append((m, span(bits)))
        check(keys == 0, "keys of the links")
        return end, sizes

    def _read_cuckoo(self, head):
        redis = self.redis
        (buckets, _removes, filters, _limit, self.slots, moves, growth,
         self.width) = struct.unpack_from("<QQQQHHHH", head, 56)
        check(self.rate == 0 if redis else 0 < self.rate < 1, "rate")
        check(self.capacity >= 1 and buckets >= 1 and moves >= 1,
              "capacity, buckets or moves")
        check(1 <= self.slots <= (255 if redis else 8), "slots")
        check(8 <= self.width <= (8 if redis else 32), "bits of a slot")
        check(growth <= 32768, "growth")
        check(not redis or buckets & buckets - 1 == growth & growth - 1 == 0,
              "buckets or growth")
        most, fixed = (65536, 1) if redis else (32, 4)
        check(1 <= filters <= (most if growth else fixed),
              "number of sub-filters")
        later = buckets  # of each other sub-filter, where the growth is 0
        if not redis and growth == 0 and buckets >= 8192:
            check(buckets % 64 == 0, "buckets")
            later = buckets // 64
        self.buckets, sizes = [], []
        for _ in range(filters):
            slots = buckets * self.slots
            bits = slots * self.width
            check(bits <= 2**48 and (not redis or slots <= 2**32),
                  "size of a sub-filter")
            self.buckets.append(buckets)
            sizes.append((bits, span(bits)))
            buckets = buckets * growth if growth else later
        check(self.keys <= sum(self.buckets) * self.slots, "number of keys")
        return 96, sizes

    def hash(self, key):
        if self.scheme == SIPHASH:
            return siphash(key, self.secret)
        if self.redis:
            h1 = murmur64a(key, 0 if self.kind == CUCKOO else REDIS_SEED)
            return h1, murmur64a(key, h1)
        return (xxhash if self.scheme == XXHASH else murmur3)(key, self.seed)

    def __contains__(self, key):
        h1, h2 = self.hash(key)
        if self.kind == CUCKOO:
            return self._in_cuckoo(h1, h2)
        if self.kind == BLOCKED:
            return self._in_blocked(h1, h2)
        width = 4 if self.kind == COUNTING else 1
        square = not self.redis
        return any(all(field(part, (h1 + i * h2 + i * i * square & MASK) % m,
                             width) for i in range(k))
                   for part, (m, k) in zip(self.parts, self.shapes))

    def _in_blocked(self, h1, h2):
        line = h1 * self.lines >> 64
        for w in range(8):
            x = (h2 >> 32 if w >= 4 else h2) * SPREAD[w % 4]
            for i in range(self.rows):
                bit = (x << 6 * i & 0xffffffff) >> 26
                if not field(self.parts[0], 512 * line + 64 * w + bit, 1):
                    return False
        return True

    def _in_cuckoo(self, h1, h2):
        s, f = self.slots, self.width
        for part, buckets in zip(self.parts, self.buckets):
            if self.redis:
                mark = h1 % 255 + 1
                first = h1 % buckets
                second = (first ^ mark * 0x5bd1e995) % buckets
            else:
                mark = (h2 * (2**f - 1) >> 64) + 1
                first = h1 // 64 % buckets
                g = mark * 0x9e3779b97f4a7c15 & MASK
                second = (g // 64 - first) % buckets
            if any(field(part, bucket * s + j, f) == mark
                   for bucket in (first, second) for j in range(s)):
                return True
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--key", type=bytes.fromhex, metavar="HEX32",
                        help="SipHash key, 32 hexadecimal digits")
    parser.add_argument("file", nargs="+")
    args = parser.parse_args()
    if args.key is not None and len(args.key) != 16:
        parser.error("--key is 32 hexadecimal digits")

    records = []
    for name in args.file:
        try:
            with open(name, "rb") as file:
                records.append(Record(file.read(), args.key))
        except (OSError, FormatError) as error:
            sys.exit(f"{name}: {error}")
    for line in sys.stdin:
        index, _, key = line.rstrip("\r\n").partition(" ")
        print(int(bytes.fromhex(key) in records[int(index)]))


if __name__ == "__main__":
    main()
