"""Agent Skills: what skips a skill, what is only warned about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from plugreg_schemas import formats
from plugreg_schemas.errors import Boundary, Severity
from plugreg_schemas.formats import skills
from plugreg_schemas.tree import DirectoryTree, MemoryTree

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN = json.dumps({"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "demo"})


def read(text: str | bytes, directory: str = "a") -> skills.Skills:
    return skills.read(MemoryTree.of({f"skills/{directory}/SKILL.md": text}))


def matter(**fields: str) -> str:
    lines = {"name": "a", "description": "Does one thing."} | fields
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in lines.items()) + "---\nText.\n"


def test_a_skill_is_read_into_name_path_and_description() -> None:
    found = read(matter())
    assert [(s.name, s.path, s.description) for s in found.skills] == [("a", "skills/a", "Does one thing.")]
    assert found.findings == ()


@pytest.mark.parametrize(
    ("name", "directory"),
    [("pdf-tools", "pdf-tools"), ("a1", "a1"), ("'1'", "1"), ("a" * 64, "a" * 64)],
)
def test_names_that_load(name: str, directory: str) -> None:
    assert read(matter(name=name), directory).skills


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("A", "A"),
        ("-a", "-a"),
        ("a-", "a-"),
        ("a--b", "a--b"),
        ("a.b", "a.b"),
        ("a_b", "a_b"),
        ("a" * 65, "a" * 65),
        ("''", "a"),
        ("1", "1"),
        ("b", "a"),
        ("[a]", "a"),
        ('"a\\n"', "a"),
    ],
)
def test_names_that_skip_the_skill(name: str, directory: str) -> None:
    found = read(matter(name=name), directory)
    assert [(v.name, v.verdict) for v in found.verdicts] == [(directory, "skip")]
    assert [(f.code, f.boundary, f.pointer) for f in found.findings] == [
        ("skill_invalid", Boundary.ENTRY, "/name")
    ]


@pytest.mark.parametrize("description", ["''", "'  '", "1", "[x]", "x" * 1025, "true"])
def test_descriptions_that_skip_the_skill(description: str) -> None:
    found = read(matter(description=description))
    assert found.skills == ()
    assert [f.pointer for f in found.findings] == ["/description"]


def test_description_is_counted_in_characters() -> None:
    assert read(matter(description="é" * 1024)).skills
    assert not read(matter(description="é" * 1025)).skills


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# No front matter\n",
        "---\nname: a\ndescription: never closed\n",
        "\n---\nname: a\ndescription: not on the first line\n---\n",
        "---\n---\n",
        "---\n- name\n---\n",
        "---\njust text\n---\n",
        "---\nname: a\ndescription: a: colon\n---\n",
        "---\nname: a\nname: a\ndescription: twice\n---\n",
        "---\nname: &x a\ndescription: *x\n---\n",
        "---\nname: !!python/name:os.system a\ndescription: tag\n---\n",
        "---\nname: a\ndescription: \x00\n---\n",
        "\ufeff---\nname: a\ndescription: byte order mark\n---\n",
        b"---\nname: a\ndescription: \xff\n---\n",
        "---\n" + "[" * 100 + "]" * 100 + "\n---\n",
        "---\nname: a\ndescription: big\nx: " + "y" * skills.MAX_FRONT_MATTER + "\n---\n",
        "---\nname: a\ndescription: big\n---\n" + "x" * (1 << 20),
    ],
)
def test_files_that_skip_the_skill(text: str | bytes) -> None:
    found = read(text)
    assert [v.verdict for v in found.verdicts] == ["skip"]
    assert "skill_invalid" in {f.code for f in found.findings}
    assert {f.boundary for f in found.findings} == {Boundary.ENTRY}


def test_windows_line_ends_and_an_empty_body_are_fine() -> None:
    assert read("---\r\nname: a\r\ndescription: x\r\n---\r\n").skills
    assert read("---\nname: a\ndescription: x\n---").skills


def test_a_line_of_a_fault_is_the_line_of_the_file() -> None:
    found = read("---\nname: a\ndescription: a: b\n---\n")
    assert "line 3" in found.findings[-1].message


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"version": "1.0"}, "unknown_field_ignored"),
        ({"allowed-tools": "[Read, Write]"}, "skill_field_invalid"),
        ({"license": "[MIT]"}, "skill_field_invalid"),
        ({"compatibility": "x" * 501}, "skill_field_invalid"),
        ({"compatibility": "''"}, "skill_field_invalid"),
        ({"metadata": "{version: 1.0}"}, "skill_field_invalid"),
        ({"metadata": "text"}, "skill_field_invalid"),
    ],
)
def test_optional_fields_are_only_warned_about(fields: dict[str, str], code: str) -> None:
    found = read(matter(**fields))
    assert found.skills
    assert [(f.code, f.severity) for f in found.findings] == [(code, Severity.WARNING)]


def test_good_optional_fields_pass_without_a_word() -> None:
    fields = {"license": "MIT", "compatibility": "x", "allowed-tools": "Read", "metadata": "{a: b}"}
    assert read(matter(**fields)).findings == ()


def test_skill_md_in_another_case_is_not_a_skill_and_is_mentioned() -> None:
    found = skills.read(MemoryTree.of({"skills/a/skill.md": matter()}))
    assert found.verdicts == ()
    assert [f.code for f in found.findings] == ["skill_file_name"]


def test_only_direct_children_with_a_skill_md_are_skills_c12() -> None:
    files = {
        "skills/README.md": "x",
        "skills/empty/notes.md": "x",
        "skills/a/SKILL.md": matter(),
        "skills/a/b/SKILL.md": matter(name="b"),
        "skills/c/SKILL.md/x": "x",
    }
    found = skills.read(MemoryTree.of(files))
    assert {v.name: v.verdict for v in found.verdicts} == {"a": "load", "c": "skip"}


def test_many_skills_that_are_all_yaml_end_soon() -> None:
    """A plugin cannot make the registry read more than 1 MiB of YAML; each skill beyond that is skipped."""
    files = {
        f"skills/s{n}/SKILL.md": matter(name=f"s{n}", metadata="[" + "1," * 15_000 + "]") for n in range(200)
    }
    found = skills.read(MemoryTree.of(files))
    assert len(found.verdicts) == 200
    assert 30 < len(found.skills) < 40
    assert any("too many" in f.message for f in found.findings)


def test_a_folder_name_that_is_not_text_is_reported_printably(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "caf\udce9"
    try:
        folder.mkdir(parents=True)
    except (OSError, UnicodeEncodeError):
        pytest.skip("this file system takes only names that are text")
    (folder / "SKILL.md").write_text(matter())
    (tmp_path / "plugin.json").write_text(PLUGIN)
    reading = formats.read(DirectoryTree(tmp_path))
    assert [v.verdict for v in reading.skills] == ["skip"]
    assert json.dumps([f.as_dict() for f in reading.findings], ensure_ascii=False).encode()
    assert reading.skills[0].name.encode()
