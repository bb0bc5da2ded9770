"""The settings of S3 and of the way that bundles take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from plugreg_registry.settings import read_settings, unknown_settings
from plugreg_registry.storage import Bucket, Transfers
from plugreg_schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


def named(given: Mapping[str, str]) -> dict[str, str]:
    return {f"PLUGREG_REGISTRY_{name}": value for name, value in given.items()}


def test_without_a_word_objects_lie_in_a_folder_and_are_streamed() -> None:
    settings = read_settings({})
    assert (settings.bucket, settings.transfers) == (None, Transfers("stream"))


@pytest.mark.parametrize(
    ("given", "bucket"),
    [
        ({"BLOBS": "s3://plugins"}, Bucket("plugins")),
        ({"BLOBS": "s3://plugins/"}, Bucket("plugins")),
        ({"BLOBS": "s3://plugins/a/b"}, Bucket("plugins", "a/b/")),
        (
            {
                "BLOBS": "s3://plugins/a",
                "S3_ENDPOINT": "http://127.0.0.1:8333/",
                "S3_PUBLIC_ENDPOINT": "https://s3.example.com",
                "S3_REGION": "eu-1",
                "S3_PATH_STYLE": "no",
                "S3_SSE": "aws:kms",
                "S3_SSE_KEY": "arn:key",
                "S3_TIMEOUT": "3",
            },
            Bucket("plugins", "a/", "http://127.0.0.1:8333", "https://s3.example.com", "eu-1", False, "aws:kms", "arn:key", 3),
        ),
    ],
)  # fmt: skip
def test_a_bucket(given: dict[str, str], bucket: Bucket) -> None:
    environment = named(given)
    assert read_settings(environment).bucket == bucket
    assert unknown_settings(environment) == ()


@pytest.mark.parametrize(
    ("given", "transfers"),
    [
        ({"DOWNLOADS": "stream"}, Transfers()),
        ({"DOWNLOADS": "redirect", "BLOBS": "s3://plugins"}, Transfers("redirect")),
        ({"DOWNLOADS": "cdn:https://cdn.example.com/x/{key}"}, Transfers("cdn", "https://cdn.example.com/x/{key}")),
        ({"UPLOADS": "direct", "BLOBS": "s3://plugins"}, Transfers(direct_uploads=True)),
    ],
)  # fmt: skip
def test_the_way_of_bundles(given: dict[str, str], transfers: Transfers) -> None:
    assert read_settings(named(given)).transfers == transfers


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"BLOBS": "s3://"}, "BLOBS"),
        ({"BLOBS": "s3://x"}, "BLOBS"),
        ({"BLOBS": "s3://plugins/../other"}, "BLOBS"),
        ({"BLOBS": "s3://plugins/a//b"}, "BLOBS"),
        ({"BLOBS": "s3://key:secret@plugins"}, "BLOBS"),
        ({"BLOBS": "gs://plugins"}, "BLOBS"),
        ({"S3_ENDPOINT": "http://127.0.0.1:1"}, "S3_ENDPOINT"),
        ({"BLOBS": "s3://plugins", "S3_ENDPOINT": "127.0.0.1:1"}, "S3_ENDPOINT"),
        ({"BLOBS": "s3://plugins", "S3_ENDPOINT": "http://me:secret@127.0.0.1:1"}, "S3_ENDPOINT"),
        ({"BLOBS": "s3://plugins", "S3_PATH_STYLE": "perhaps"}, "S3_PATH_STYLE"),
        ({"BLOBS": "s3://plugins", "S3_SSE": "rot13"}, "S3_SSE"),
        ({"BLOBS": "s3://plugins", "S3_SSE": "AES256", "S3_SSE_KEY": "x"}, "S3_SSE_KEY"),
        ({"BLOBS": "s3://plugins", "S3_TIMEOUT": "0"}, "S3_TIMEOUT"),
        ({"BLOBS": "s3://plugins", "S3_TIMEOUT": "soon"}, "S3_TIMEOUT"),
        ({"DOWNLOADS": "redirect"}, "DOWNLOADS"),
        ({"DOWNLOADS": "stream:x"}, "DOWNLOADS"),
        ({"DOWNLOADS": "cdn"}, "DOWNLOADS"),
        ({"DOWNLOADS": "cdn:https://cdn.example.com/"}, "DOWNLOADS"),
        ({"DOWNLOADS": "cdn:cdn.example.com/{key}"}, "DOWNLOADS"),
        ({"UPLOADS": "direct"}, "UPLOADS"),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_is_shown(given: dict[str, Any], wrong: str) -> None:
    with pytest.raises(UsageError, match="setting_invalid") as caught:
        read_settings(named(given))
    [finding] = caught.value.findings
    assert f"`PLUGREG_REGISTRY_{wrong}`" in finding.message
    assert "secret@" not in finding.message
