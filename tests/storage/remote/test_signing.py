"""Signatures of requests to S3, with botocore as the judge."""

from __future__ import annotations

import itertools
import pickle
from datetime import UTC, datetime

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Keys

from cfagg.errors import AccessError
from cfagg.storage import signing
from cfagg.storage.credentials import Credentials


def test_each_day_region_and_secret_has_its_own_key() -> None:
    days = [datetime(2026, 1, 1, 23, 59, 59, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]
    # Twice, so that keys of before are known.
    for when, region, secret in [*itertools.product(days, ("us-east-1", "eu-west-3"), ("one", "other"))] * 2:
        keys = Credentials("AKID", secret, "token", region)
        found = signing.sign(keys, "GET", "example.org", "/b1/a", "x=1", {"range": "bytes=0-9"}, when)
        request = AWSRequest("GET", "https://example.org/b1/a?x=1", {"range": "bytes=0-9"})
        request.context["timestamp"] = when.strftime("%Y%m%dT%H%M%SZ")
        judge = S3SigV4Auth(Keys("AKID", secret, "token"), "s3", region)
        judge._modify_request_before_signing(request)
        expected = judge.signature(judge.string_to_sign(request, judge.canonical_request(request)), request)
        assert found["authorization"].endswith(f"Signature={expected}")


def test_the_key_of_a_day_is_derived_once_and_stands_nowhere() -> None:
    signing._key_of_the_day.cache_clear()
    keys = Credentials("AKID", "secret of a test")
    for _ in range(5):
        signing.sign(keys, "GET", "example.org", "/b1/a", "", {}, datetime(2026, 1, 1, tzinfo=UTC))
    assert signing._key_of_the_day.cache_info()[:2] == (4, 1)
    signer = signing.Signing(keys, "us-east-1")
    assert "secret of a test" not in repr(signer)
    with pytest.raises(AccessError):
        pickle.dumps(signer)
