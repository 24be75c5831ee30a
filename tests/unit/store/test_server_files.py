"""What a server leaves on disk is read with suspicion."""

import json
import os
import subprocess
import sys

import psutil
import pytest

from scholar_rag_li.store._server_files import (
    is_alive,
    live_handles,
    postgres_processes,
    read_pid_file,
    socket_directory,
)


@pytest.mark.parametrize("text", ["", "12", "12\n/data\n", "x\n/d\n1\n5432\n/s\n"])
def test_a_truncated_pid_file_counts_as_none(tmp_path, text):
    """A file that was cut short names no server."""
    (tmp_path / "postmaster.pid").write_text(text)
    assert read_pid_file(tmp_path) is None


def test_a_pid_file_gives_process_and_socket_directory(tmp_path):
    """Lines 1 and 5."""
    (tmp_path / "postmaster.pid").write_text("12\n/d\n1\n5432\n/s\n\n1 2\nready\n")
    assert read_pid_file(tmp_path) == (12, "/s")


def test_another_program_in_the_directory_is_no_postgres(tmp_path):
    """The name of the program counts as well as its working directory."""
    with subprocess.Popen([sys.executable, "-c", "input()"], cwd=tmp_path, stdin=-1):
        assert postgres_processes(tmp_path) == set()


def test_a_dead_handle_is_pruned(tmp_path):
    """Of this process and one that ended, this one is left."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    file = tmp_path / "handles.json"
    file.write_text(json.dumps([os.getpid(), ended.pid]))
    assert live_handles(file) == {os.getpid()}


def test_a_reused_handle_is_pruned(tmp_path):
    """A process that started after its id was noted is another one."""
    file = tmp_path / "handles.json"
    file.write_text(json.dumps([os.getpid()]))
    before = psutil.Process().create_time() - 10
    os.utime(file, (before, before))
    assert live_handles(file) == set()


@pytest.mark.parametrize("text", ["", "[1, 2", "{"])
def test_a_broken_handle_file_names_nobody(tmp_path, text):
    """A half-written file is no error."""
    (tmp_path / "handles.json").write_text(text)
    assert live_handles(tmp_path / "handles.json") == set()


def test_an_ended_process_is_not_alive():
    """A process that was not collected yet has ended all the same."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(child.pid)


@pytest.mark.parametrize("name", ["a b", "a,b", 'a"b', "x" * 100])
def test_an_unusual_or_long_path_gets_a_short_socket_directory(home, name):
    """A socket's name has at most 103 bytes, and nothing to quote."""
    (home / name).mkdir()
    short = socket_directory(home / name)
    short.rmdir()
    assert (len(str(short)) < 80, short.parent.name) == (True, "tmp")
