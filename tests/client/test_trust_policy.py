"""`trust.toml`: whom a machine trusts with a name, and what its first use of a name may do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plugreg.config import Config, load
from plugreg.trust_policy import FILE, TrustPolicy
from plugreg.trust_policy import load as load_policy
from plugreg_schemas.errors import IntegrityError, NotAllowed, UsageError
from tests.support.roots import Here

CI = "ci:https://token.actions.example#1234#56#.ci/release.yml"
KEY = "key:sha256:" + "a" * 64


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def policy_of(home: Path, text: str, first_use: str = "pin") -> TrustPolicy:
    home.mkdir(exist_ok=True)
    (home / FILE).write_text(text)
    return load_policy(Config(home=home, root=home / "root", first_use=first_use))


# the file


def test_without_a_file_the_first_signer_is_pinned(tmp_path: Path) -> None:
    policy = load_policy(Config(home=tmp_path / "none", root=tmp_path))
    assert (policy.first_use, dict(policy.signers)) == ("pin", {})
    policy.check("demo", KEY, known=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("first_use = ", "cannot be read"),
        ("first_use = 'never'", "`first_use` is"),
        ("first_use = []", "`first_use` is"),
        ("frist_use = 'refuse'", "not `frist_use`"),
        ("signers = 3", "`signers` is a table"),
        ("[signers]\n'demo' = []", "at least one"),
        ("[signers]\n'demo' = 'key:x'", "is a list"),
        ("[signers]\n'demo' = [3]", "is not an identity"),
        ("[signers]\n'demo' = ['acme']", "is not an identity"),
        ("[signers]\n'Demo' = ['key:x']", "can match no name"),
        ("[signers]\n'' = ['key:x']", "can match no name"),
    ],
)
def test_a_fault_of_the_file_stops_and_names_its_place(tmp_path: Path, text: str, words: str) -> None:
    """A rule that is silently no rule would trust anybody."""
    with pytest.raises(UsageError) as caught:
        policy_of(tmp_path, text)
    assert caught.value.code == "trust_policy_invalid"
    assert str(tmp_path / FILE) in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint


def test_the_file_may_only_be_stricter_than_the_settings(tmp_path: Path) -> None:
    assert policy_of(tmp_path, "first_use = 'pin'", "refuse").first_use == "refuse"
    assert policy_of(tmp_path, "first_use = 'refuse'", "pin").first_use == "refuse"


def test_a_folder_in_its_place_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(UsageError, match="trust_policy_invalid"):
        load_policy(Config(home=tmp_path, root=tmp_path))


def test_a_projects_file_does_not_say_whom_to_trust(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[signers]\n'*' = ['key:*']")
    (tmp_path / "plugreg.toml").write_text("first_use = 'pin'")
    environ = {"PLUGREG_HOME": str(tmp_path / "home")}
    with pytest.raises(UsageError, match="config_invalid"):
        load(environ, folder=tmp_path)
    (tmp_path / "plugreg.toml").unlink()
    assert not load_policy(load(environ, folder=tmp_path)).signers


@pytest.mark.parametrize("source", ["environment", "user"])
def test_first_use_is_a_setting_of_the_user(tmp_path: Path, source: str) -> None:
    environ = {"PLUGREG_HOME": str(tmp_path)}
    if source == "environment":
        environ["PLUGREG_FIRST_USE"] = "refuse"
    else:
        (tmp_path / "config.toml").write_text('first_use = "refuse"')
    assert load_policy(load(environ)).first_use == "refuse"
    environ["PLUGREG_FIRST_USE"] = "sometimes"
    with pytest.raises(UsageError, match="config_invalid"):
        load(environ)


def test_the_example_in_the_documents_is_one_that_is_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/policy.md").read_text("utf-8")
    (example,) = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    policy = policy_of(tmp_path, example)
    assert policy.first_use == "refuse"
    assert policy.deciding("acme-lint") == ("acme-*",)


# the rule


def test_a_name_that_matches_must_be_signed_by_one_of_its_identities() -> None:
    policy = TrustPolicy(signers={"acme-*": (CI, KEY)})
    policy.check("acme-lint", CI, known=False)
    policy.check("acme-lint", KEY, known=False)
    policy.check("lint", "key:sha256:other", known=False)
    with pytest.raises(IntegrityError) as caught:
        policy.check("acme-lint", "key:sha256:other", known=True)
    assert caught.value.code == "signer_not_trusted"
    assert CI in caught.value.message
    assert "key:sha256:other" in caught.value.message


def test_the_most_exact_pattern_decides() -> None:
    policy = TrustPolicy(signers={"*": (CI,), "acme-*": (KEY,), "acme-lint": (CI,)})
    assert policy.deciding("acme-lint") == ("acme-lint",)
    assert policy.deciding("acme-notes") == ("acme-*",)
    assert policy.deciding("other") == ("*",)


def test_of_patterns_that_are_equally_exact_each_must_allow() -> None:
    policy = TrustPolicy(signers={"acm*": (CI, KEY), "*int": (CI,)})
    policy.check("acmelint", CI, known=False)
    with pytest.raises(IntegrityError, match="signer_not_trusted"):
        policy.check("acmelint", KEY, known=False)


def test_wildcards_match_and_brackets_stand_for_themselves() -> None:
    policy = TrustPolicy(signers={"demo": ("oidc:https://[::1]/oidc#*@acme.example",)})
    policy.check("demo", "oidc:https://[::1]/oidc#ann@acme.example", known=False)
    with pytest.raises(IntegrityError, match="signer_not_trusted"):
        policy.check("demo", "oidc:https://:/oidc#ann@acme.example", known=False)


@pytest.mark.parametrize("known", [False, True])
def test_first_use_refuse_wants_a_rule_or_a_pin(known: bool) -> None:
    policy = TrustPolicy("refuse", {"acme-*": (KEY,)})
    policy.check("acme-lint", KEY, known=False)
    if known:
        policy.check("demo", KEY, known=True)
        return
    with pytest.raises(NotAllowed) as caught:
        policy.check("demo", KEY, known=False)
    assert caught.value.code == "first_use_refused"
    assert KEY in caught.value.hint


# install and update


def test_another_signer_than_the_rule_names_is_not_installed(here: Here) -> None:
    here.publish()
    policy = TrustPolicy(signers={"demo": (here.stranger.signer.words,)})
    error = here.refused(here.install, policy=policy)
    assert (error.code, type(error)) == ("signer_not_trusted", IntegrityError)
    assert here.offers.downloads == 0
    here.install(policy=TrustPolicy(signers={"dem?": (here.author.signer.words,)}))


def test_a_flag_does_not_stand_above_the_rule(here: Here) -> None:
    here.publish()
    policy = TrustPolicy(signers={"demo": (here.stranger.signer.words,)})
    error = here.refused(here.install, policy=policy, accept_signer=here.author.signer.words)
    assert error.code == "signer_not_trusted"


def test_a_rule_made_later_stops_the_update_and_what_is_installed_stays(here: Here) -> None:
    here.publish()
    here.install()
    here.publish("1.1.0")
    error = here.refused(here.update, policy=TrustPolicy(signers={"*": (here.stranger.signer.words,)}))
    assert error.code == "signer_not_trusted"
    assert here.listed() == {"demo": "1.0.0"}


def test_a_machine_that_refuses_first_uses_takes_only_a_signer_that_was_named(here: Here) -> None:
    here.publish()
    policy = TrustPolicy("refuse")
    error = here.refused(here.install, policy=policy)
    assert (error.code, type(error)) == ("first_use_refused", NotAllowed)
    error = here.refused(here.install, policy=policy, accept_signer=here.stranger.signer.words)
    assert error.code == "first_use_refused"
    here.install(policy=policy, accept_signer=here.author.signer.words)
    here.publish("1.1.0")
    here.update(policy=policy)
    assert here.listed() == {"demo": "1.1.0"}


def test_data_that_stay_keep_the_pin_that_a_later_use_goes_by(here: Here) -> None:
    here.publish()
    here.install()
    here.uninstall()
    here.install(policy=TrustPolicy("refuse"))
    assert here.listed() == {"demo": "1.0.0"}
