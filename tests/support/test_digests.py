import hashlib

from inspector.support.digests import digest_of


def test_digests_depend_on_the_bounds_of_parts() -> None:
    assert digest_of([b"ab"]) != digest_of([b"a", b"b"])
    assert digest_of([]) != digest_of([b""])


def test_digests_are_sha256_of_lengths_and_parts() -> None:
    assert digest_of([b"ab", b"c"]) == hashlib.sha256(b"\2\0\0\0\0\0\0\0ab\1\0\0\0\0\0\0\0c").digest()
