# SPDX-License-Identifier: Apache-2.0
"""Programs out of images as plain processes: what is unpacked of an archive, what is refused, what it may then do."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments import brokers, building, roots
from experiments.brokers import Broker, Setup
from experiments.errors import BadInputError, StandError
from experiments.roots import Chunks, Root, unpack

ROOTED = Path(roots.__file__).with_name("placements") / "rooted.py"


def member(name: str, kind: bytes = tarfile.REGTYPE, *, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, mode
    return made


def archive(*members: tarfile.TarInfo) -> io.BytesIO:
    """Each file in it holds its own name."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for each in members:
            content = each.name.encode() if each.isreg() else b""
            each.size = len(content)
            tar.addfile(each, io.BytesIO(content))
    packed.seek(0)
    return packed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (made := tmp_path / "root").mkdir()
    return made


def test_what_is_unpacked_is_files_folders_and_links_with_no_power_of_their_own(folder: Path) -> None:
    unpack(
        archive(
            member("usr", tarfile.DIRTYPE, mode=0o777), member("usr/su", mode=0o6777), member("usr/text", mode=0o666),
            member("usr/same", tarfile.LNKTYPE, link="usr/su"), member("bin", tarfile.SYMTYPE, link="/usr"),
            member("dev", tarfile.DIRTYPE), member("dev/null", tarfile.CHRTYPE), member("dev/vda", tarfile.BLKTYPE),
            member("pipe", tarfile.FIFOTYPE),
        ),
        folder,
    )  # fmt: skip
    found = {path.relative_to(folder).as_posix(): path.lstat() for path in folder.rglob("*")}
    assert set(found) == {"usr", "usr/su", "usr/text", "usr/same", "bin", "dev", "proc", "tmp", "state"}
    assert {name: found[name].st_mode & 0o7777 for name in ("usr", "usr/su", "usr/text")} == {
        "usr": 0o755, "usr/su": 0o755, "usr/text": 0o644,
    }  # fmt: skip
    assert found["usr/same"].st_ino == found["usr/su"].st_ino
    assert (folder / "bin").readlink() == Path("/usr")  # as a chroot has it
    assert {stat.st_uid for stat in found.values()} == {os.geteuid()}


@pytest.mark.parametrize(
    "members",
    [
        [member("../out")],
        [member("usr/../../out")],
        [member("/out")],
        [member("usr", tarfile.SYMTYPE, link="/"), member("usr/out")],
        [member("usr", tarfile.SYMTYPE, link=".."), member("usr/out")],
        [member("usr", tarfile.SYMTYPE, link=".."), member("usr", tarfile.DIRTYPE)],
        [member("proc", tarfile.SYMTYPE, link="..")],
        [member("out", tarfile.LNKTYPE, link="../mine")],
        [member("out", tarfile.LNKTYPE, link="/mine")],
    ],
)
def test_an_archive_that_points_out_of_its_folder_is_refused(folder: Path, members: list[tarfile.TarInfo]) -> None:
    (folder.parent / "mine").write_text("mine")
    mode = folder.parent.stat().st_mode
    with pytest.raises(StandError, match="; build it anew"):
        unpack(archive(*members), folder)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["mine", "root"]
    assert folder.parent.stat().st_mode == mode


def test_a_file_is_never_written_through_a_link(folder: Path) -> None:
    (outside := folder.parent / "mine").write_text("mine")
    with pytest.raises(FileExistsError):
        unpack(archive(member("out", tarfile.SYMTYPE, link=str(outside)), member("out")), folder)
    assert outside.read_text() == "mine"


def test_an_archive_that_breaks_off_is_said_in_a_line(folder: Path) -> None:
    whole = archive(*(member(f"file-{number}") for number in range(40))).getvalue()
    with pytest.raises(StandError, match=r"cannot be read: .*; try again"):
        unpack(io.BytesIO(whole[:5000]), folder)


def test_what_comes_in_pieces_is_read_as_a_file() -> None:
    assert io.BufferedReader(Chunks([b"ab", b"", b"cde", b"f"])).read() == b"abcdef"


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Root]:
    """A kind with a file system of no program, that this machine can run."""
    monkeypatch.setattr(roots, "FOLDER", tmp_path / "brokers")
    monkeypatch.setattr(Root, "lacking", lambda _self: None)

    def export(kind: str) -> Root:
        root = Root(kind, "sha256:0", brokers.parse(kind).inputs(), "1.2", ["/bin/serve", "-c"], {"PATH": "/bin"})
        root.write(archive(member("broker", tarfile.DIRTYPE), member("broker/nodelay.conf")))
        return root

    return export


ROOTED_KINDS = [kind for kind in brokers.REGISTRY.all() if brokers.parse(kind).exports()]


@pytest.mark.parametrize("kind", ROOTED_KINDS)
def test_an_exported_broker_runs_on_a_copy_of_its_configuration_for_loopback(
    exported: Callable[[str], Root], kind: str, tmp_path: Path
) -> None:
    root, broker = exported(kind), brokers.parse(kind)
    assert (broker.available_on_host(), broker.version_on_host()) == (True, "1.2")
    for tcp in broker.tcp:
        broker.check_host(Setup(tcp))
        command = broker.host_command(4711, nodelay=tcp == "nodelay", folder=tmp_path)
        text = broker.host_file(tmp_path).read_text()
        assert command[3:] == [
            str(root.folder), str(broker.host_file(tmp_path)), "PATH=/bin", "/bin/serve", "-c", broker.file(Setup(tcp)),
        ]  # fmt: skip
        assert "127.0.0.1" in text
        assert "4711" in text
        assert "0.0.0.0" not in text
        assert "1883" not in text
        assert broker.host_file(tmp_path).stat().st_mode & 0o777 == 0o644
    for setup, told in (
        (Setup(security="tls"), "SECURITY=tls: "), (Setup(stores=True), "SESSION=persistent: "),
        (Setup("cork"), "TCP=cork: "),
    ):  # fmt: skip
        with pytest.raises(BadInputError, match=told):
            broker.check_host(setup)


def test_most_brokers_can_be_exported_and_those_that_cannot_say_why() -> None:
    assert set(ROOTED_KINDS) == {"aedes", "apollo", "artemis", "hivemq", "mochi", "moquette", "mosca", "ponte"}
    with pytest.raises(BadInputError, match=r"BROKER=rabbitmq: .*epmd would listen on every .*; say PLACEMENT=docker"):
        brokers.parse("rabbitmq").check_host(Setup())


def test_what_is_not_exported_or_from_other_files_or_not_to_be_run_here_says_its_remedy(
    exported: Callable[[str], Root], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = brokers.parse("mochi")
    with pytest.raises(BadInputError, match=r"BROKER=mochi: its program is not here; `make brokers` takes"):
        broker.check_host(Setup())
    root = exported("mochi")
    with monkeypatch.context() as patch:
        patch.setattr(Broker, "inputs", lambda _self: "others")
        assert "from other files than the present ones; `make brokers`" in broker.missing_on_host()
    monkeypatch.setattr(Root, "lacking", lambda _self: "Operation not permitted (unshare)")
    assert broker.missing_on_host().endswith("Operation not permitted (unshare); run as root, or PLACEMENT=docker")
    root.folder.with_suffix(".json").unlink()
    with pytest.raises(StandError, match="the program of mochi is gone; `make brokers`"):
        broker.version_on_host()


def test_a_part_of_an_export_is_none_and_the_next_takes_its_place(exported: Callable[[str], Root]) -> None:
    root = exported("mochi")
    with pytest.raises(StandError):
        root.write(archive(member("../out")))
    assert Root.of("mochi") is None
    assert exported("mochi") == Root.of("mochi")


def test_a_file_system_that_is_none_is_said_in_a_line(tmp_path: Path) -> None:
    """Whether or not this machine gives one: a folder without what mounts need, or no right to mount."""
    done = subprocess.run(
        [sys.executable, "-S", str(ROOTED), str(tmp_path / "none")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "(" in done.stderr


def test_a_failed_build_is_told_in_the_words_of_the_step_that_failed() -> None:
    said = (
        "docker compose failed:\n#9 ERROR\n------\n > [packages 4/4] RUN npm ci:\n1.2 npm error code ENOTFOUND\n"
        "1.3 npm error network no way to registry.npmjs.org\n------\nfailed to solve: process npm: exit code: 1\n"
    )
    assert building.why(said) == "npm error network no way to registry.npmjs.org"
    assert building.why("docker compose failed:\nno such command\n") == "no such command"
    assert building.why("") == "it failed"
