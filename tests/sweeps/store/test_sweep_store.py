"""The sweep store: round trips, one driver at a time, and one-line errors."""

import errno
import json
import logging
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sweeps.cli import app
from sweeps.errors import NameTakenError, UserError
from sweeps.jobs.jobs import submit_resume
from sweeps.results.documents import to_document
from sweeps.search.record import TrialRecord
from sweeps.search.warm_start import EarlierTrial, Known
from sweeps.service.reading.finding import overviews, read_answer
from sweeps.service.reading.stored import load_evidence
from sweeps.service.running import resume_sweep, run_sweep
from sweeps.service.upkeep import delete_sweep, sync_sweep
from sweeps.store import lease
from sweeps.store.driver_log import driver_log
from sweeps.store.earlier_sweeps import known_files, read_known
from sweeps.store.storage import check_storage, sweep_names
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.upgrading import FORMAT
from tests.builders import Noted, baseline, compared, make_sweep, new_store, trial
from trainables.contract.setting import Setting
from trainables.files.storage import Folder


@pytest.fixture(params=["path", "file URI"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SweepStore:
    prefix = "file://" if request.param == "file URI" else ""
    store = SweepStore(f"{prefix}{tmp_path}", "kept")
    assert not store.exists()
    store.create(make_sweep("kept"))
    return store


def test_a_sweep_is_kept_with_an_id_of_its_own(store: SweepStore, tmp_path: Path) -> None:
    assert store.exists()
    assert store.load_sweep() == make_sweep("kept")
    other = SweepStore(str(tmp_path), "other")
    other.create(make_sweep("other"))
    assert sorted(sweep_names(store.storage)) == ["kept", "other"]
    assert store.sweep_id() == store.sweep_id() != other.sweep_id()
    assert store.load_records() == []


def test_records_come_back_in_order(store: SweepStore) -> None:
    records = [
        TrialRecord(number, "search", Setting("focal", {"gamma": 1 / 3, "mode": "x"}), 0, 1.5)
        for number in (12, 3, 100_000)
    ]
    records[0].add({"epoch": 1, "val_ece": 0.1 + 0.2})
    for record in records:
        store.save(record)
    assert store.load_records() == [records[1], records[0], records[2]]
    records[1].state, records[1].reason, records[1].ended = "failed", "diverged", 9.0
    store.save(records[1])
    assert store.load_records()[0] == records[1]
    (store.trials_folder / "00007").create()  # killed before its record was written
    (store.trials_folder / "notes").create()
    assert len(store.load_records()) == 3


finite = st.floats(allow_nan=False, allow_infinity=False)
metrics = st.dictionaries(st.text(max_size=5), st.floats(), max_size=4)


@given(
    history=st.lists(metrics, max_size=3), gamma=st.floats(allow_nan=False, allow_infinity=False)
)
def test_metrics_are_stored_exactly_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, history: list[dict[str, float]], gamma: float
) -> None:
    store = SweepStore(str(tmp_path_factory.getbasetemp() / "any"), "kept")
    history = [{**entry, "epoch": epoch} for epoch, entry in enumerate(history, 1)]
    record = TrialRecord(0, "search", Setting("focal", {"gamma": gamma}), 0, 0.0, history=history)
    store.save(record)
    (read,) = store.load_records()
    assert read.history == [
        {key: value for key, value in entry.items() if math.isfinite(value)} for entry in history
    ]
    assert read.hyperparameters == {"gamma": gamma}


def test_an_epoch_is_taken_in_once() -> None:
    record = TrialRecord(0, "search", Setting("focal", {}), 0, 0.0)
    assert record.epochs == 0 and record.outcome == {}
    assert record.add({"epoch": 1, "val_ece": 0.5})
    assert not record.add({"epoch": 1, "val_ece": 0.4})
    assert record.add({"epoch": 2, "val_ece": 0.3})
    assert not record.add({"epoch": 1, "val_ece": 0.2})
    assert [entry["val_ece"] for entry in record.history] == [0.5, 0.3]
    assert record.outcome["val_ece"] == 0.3


def test_the_seed_makes_no_other_setting() -> None:
    one = TrialRecord(0, "search", Setting("mbls", {"margin": 1.0, "lam": 2.0}), 0, 0.0)
    other = TrialRecord(1, "finalist", Setting("mbls", {"lam": 2.0, "margin": 1.0}), 5, 0.0)
    assert one.setting == other.setting
    assert one.setting != TrialRecord(2, "search", Setting("mbls", {"lam": 2.0}), 0, 0.0).setting


LOCK = """
import sys, time
from sweeps.errors import UserError
from sweeps.store.sweep_store import SweepStore
try:
    with SweepStore(sys.argv[1], "kept").locked():
        print("locked", flush=True)
        time.sleep(float(sys.argv[2]))
except UserError as error:
    print(error)
"""


def hold(store: SweepStore, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LOCK, store.storage, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_another_process_is_kept_out_until_the_first_has_died(store: SweepStore) -> None:
    first = hold(store, 600)
    assert first.stdout is not None
    assert first.stdout.readline() == "locked\n"
    with (
        pytest.raises(UserError, match=rf"'kept' is being run by process {first.pid} on .*; wait"),
        store.locked(),
    ):
        pass
    first.kill()
    first.communicate()
    with store.locked():
        output, _ = hold(store, 0).communicate()
        assert "is being run by process" in output
    output, _ = hold(store, 0).communicate()
    assert output == "locked\n"


@pytest.mark.parametrize(
    ("storage", "reason"),
    [
        ("{file}", r"File exists|Not a directory"),
        ("{file}/below", "Not a directory"),
        ("{file}/below/deeper", "Not a directory"),
        ("nope://x", "Unrecognized filesystem type"),
        ("file://not absolute", "URI"),
    ],
)
def test_a_storage_that_cannot_be_is_reported_by_all_who_use_it(
    tmp_path: Path, storage: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    storage = storage.format(file=tmp_path / "file")
    store = SweepStore(storage, "kept")
    for use in (lambda: check_storage(storage), store.load_sweep):
        with pytest.raises(UserError, match=rf"storage = .* cannot be used: .*({reason})") as found:
            use()
        assert len(str(found.value).splitlines()) == 1
    assert (tmp_path / "file").read_bytes() == b""


def test_a_check_leaves_nothing_behind(tmp_path: Path) -> None:
    check_storage(str(tmp_path))
    check_storage(str(tmp_path / "not" / "there" / "yet"))
    check_storage(f"file://{tmp_path}/neither")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kep", r"no sweep named 'kep' in .* \(did you mean 'kept'\?\); there are: kept"),
        ("zzz", r"no sweep named 'zzz' in .*; there are: kept"),
    ],
)
def test_an_unknown_name(store: SweepStore, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        SweepStore(store.storage, name).load_sweep()


def test_an_empty_storage_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is none"):
        SweepStore(str(tmp_path / "nowhere"), "kept").load_sweep()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'name': 'kept'}", "kept: the sweep file is cut short"),
        ("name: [kept", "kept, line 1: not valid YAML"),
        ("", "kept: a sweep file is a mapping of keys to values, found None"),
    ],
)
def test_a_damaged_sweep_file_is_reported(store: SweepStore, text: str, message: str) -> None:
    store.folder.write("sweep.yaml", text.encode())
    with pytest.raises(UserError, match=message):
        store.load_sweep()


def killed_while_deleting(store: SweepStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the state of a `calsweep delete` that was killed in the middle."""

    def killed(folder: Folder, besides: object = ()) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), store.locked():
        patch.setattr(Folder, "clear", killed)
        store.delete()


def test_a_deletion_that_was_interrupted_can_be_repeated(
    store: SweepStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(baseline())
    killed_while_deleting(store, monkeypatch)
    assert not store.exists()
    assert store.folder.exists("trials")
    delete_sweep(store.name, store.storage)
    assert not Path(store.folder.path).exists()
    with pytest.raises(UserError, match="no sweep named 'kept'"):
        delete_sweep(store.name, store.storage)


@pytest.mark.parametrize("name", ["", ".", "..", "../../beside", "a/b", "kept/", "-x", "k\n"])
def test_a_name_is_never_another_folders(tmp_path: Path, name: str) -> None:
    """An unset variable in a script gives an empty name, which would be all sweeps."""
    (tmp_path / "beside").mkdir()
    storage = tmp_path / "a" / "storage"
    kept = new_store(storage, make_sweep("kept"), [baseline()])
    for storage_uri in (str(storage), f"file://{storage}", "s3://bucket/prefix"):
        with pytest.raises(UserError, match=r"name = .* is not allowed; allowed: .* letters"):
            delete_sweep(name, storage_uri)
    assert kept.load_records() == [baseline()]
    assert (tmp_path / "beside").exists()


def test_every_command_with_a_name_checks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    new_store(tmp_path, make_sweep("kept"), [baseline()])
    named = [
        command.callback.__name__
        for command in app.registered_commands
        if command.callback is not None
        and {"SweepName", "SweepNames", "OneSweepName"}
        & set(command.callback.__annotations__.values())
    ]
    assert {"delete", "show", "resume", "report", "export", "sync", "compare"} <= set(named)
    for command in named:
        of_trials = ["1"] if command in ("drop", "retry") else []
        for name in ("", ".."):
            given = [command, name, *of_trials, "--storage", str(tmp_path)]
            done = CliRunner().invoke(app, given, input="y")
            assert isinstance(done.exception, UserError), command
            assert f"name = {name!r} is not allowed" in str(done.exception), command
    with pytest.raises(UserError, match="name = '' is not allowed"):
        submit_resume("", "s3://bucket/prefix", "http://127.0.0.1:9", (), print)
    assert SweepStore(str(tmp_path), "kept").exists()


def test_a_folder_that_no_sweep_has_written_is_not_touched(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    (mine := storage / "sweeps" / "notes").mkdir(parents=True)
    (mine / "thesis.txt").write_text("years of work")
    (mine / "trials").mkdir()
    with pytest.raises(UserError, match="no sweep named 'notes'"):
        delete_sweep("notes", str(storage))
    store = SweepStore(str(storage), "notes")
    with pytest.raises(UserError, match=r"holds other files \(thesis.txt, trials\)"):
        run_sweep(make_sweep("notes"), str(storage))
    with store.locked(), pytest.raises(UserError, match="holds other files"):
        store.delete()
    assert (mine / "thesis.txt").read_text() == "years of work"


def test_a_new_sweep_takes_nothing_of_one_that_was_deleted_in_part(
    store: SweepStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for record in (baseline(), trial(1)):
        store.save(record)
    store.save_answer({"verdict": "supported"})
    store.save_run_ids("parent", {0: "run"})
    store.folder.write("encoders", b"small_cnn-0")
    before = store.sweep_id()
    killed_while_deleting(store, monkeypatch)
    new = SweepStore(store.storage, "kept")
    with new.locked():
        new.create(make_sweep("kept", training={"lr": 0.5}))
    assert new.load_records() == []
    assert new.load_answer() is None
    assert new.load_run_ids() == (None, {})
    assert new.sweep_id() != before
    assert set(new.folder.names()) <= {"sweep.yaml", "sweep_id", "format", "driver.lock"}


def test_a_new_sweep_takes_nothing_of_one_whose_creation_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SweepStore(str(tmp_path), "kept")
    write = Folder.write

    def killed(folder: Folder, name: str, data: bytes, **options: bool) -> None:
        if name == "sweep.yaml":
            raise KeyboardInterrupt
        write(folder, name, data, **options)

    earlier = [EarlierTrial(Setting("focal", {"gamma": 1.0}), 0.1, 0.0)]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), store.locked():
        patch.setattr(Folder, "write", killed)
        store.create(make_sweep("kept"), known_files(Known(earlier)))
    assert "warm_start.json" in store.folder.names()
    with store.locked():
        store.create(make_sweep("kept"))
    assert read_known(store.folder).earlier == []


def test_a_folder_in_which_no_sweep_was_created_goes(tmp_path: Path) -> None:
    store = SweepStore(str(tmp_path / "new" / "storage"), "refused")
    with pytest.raises(UserError, match="the data"), store.locked():
        assert Path(store.folder.path).exists()
        raise UserError("the data cannot be read")
    assert list(tmp_path.iterdir()) == []


def test_records_of_another_sweep_are_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path, make_sweep("kept"), [baseline(), trial(1)])
    other = new_store(tmp_path, make_sweep("other"), [trial(2)])
    foreign = other.trial_folder(2).read("trial.json")
    store.trial_folder(2).write("trial.json", foreign)
    values = json.loads(store.trial_folder(1).read("trial.json"))
    del values["sweep_id"]  # it was damaged when the record was written
    store.trial_folder(1).write("trial.json", json.dumps(values).encode())
    messages: list[str] = []
    assert [record.number for record in store.load_records(messages.append)] == [0, 1]
    file = f"{tmp_path}/sweeps/kept/trials/00002/trial.json"
    assert messages == [f"{file} is another sweep's; the trial is left out"]


def test_fields_of_newer_versions_are_ignored(tmp_path: Path) -> None:
    store = new_store(tmp_path, make_sweep("kept"), [baseline()])
    comparison = to_document(compared("ours", "theirs", "ece", 0, 0, 0, "supported", 3))
    answer = {"verdict": "supported", "comparisons": [{**comparison, "mood": "good"}]}
    store.save_answer(answer)
    values = json.loads(store.trial_folder(0).read("trial.json"))
    store.trial_folder(0).write("trial.json", json.dumps({**values, "mood": "good"}).encode())
    earlier = {"loss": "focal", "hyperparameters": {}, "objective": 0.1, "excess": 0.0, "mood": 1}
    store.folder.write("warm_start.json", json.dumps([earlier]).encode())
    messages: list[str] = []
    assert store.load_records(messages.append) == [baseline()]
    assert messages == []
    assert read_known(store.folder).earlier == [EarlierTrial(Setting("focal", {}), 0.1, 0.0)]
    assert len(load_evidence(store).comparisons) == 1


def test_a_sweep_of_a_newer_version_is_refused_in_one_sentence(tmp_path: Path) -> None:
    store = new_store(tmp_path, make_sweep("kept"), [baseline()])
    assert store.folder.read("format") == str(FORMAT).encode()
    store.folder.write("format", str(FORMAT + 1).encode())
    store.folder.write("sweep.yaml", b"of: another kind")
    message = (
        rf"^sweep 'kept' in {tmp_path} was written by calsweep of an unknown version \(format "
        rf"{FORMAT + 1}\); this calsweep reads formats up to {FORMAT}: update calsweep$"
    )
    with pytest.raises(UserError, match=message):
        store.load_sweep()
    for reads in (read_answer, resume_sweep, sync_sweep):
        with pytest.raises(UserError, match=message):
            reads("kept", str(tmp_path))
    assert overviews(str(tmp_path)) == []


def test_of_two_that_start_one_sweep_at_once_one_begins_it(tmp_path: Path) -> None:
    sweep = make_sweep("twice")
    first = SweepStore(str(tmp_path), "twice")
    with first.locked():  # like a driver that is loading its data
        with pytest.raises(NameTakenError, match="'twice' is being run by process"):
            run_sweep(sweep, str(tmp_path))
        assert first.folder.names() == ["driver.lock"]
        first.create(sweep)
    with pytest.raises(NameTakenError, match="a sweep of this name exists"):
        run_sweep(sweep, str(tmp_path))


STARTS = """
import sys
from sweeps.errors import NameTakenError
from sweeps.store.sweep_store import SweepStore
from tests.builders import make_sweep
sweep = make_sweep("kept")
print("ready", flush=True)
sys.stdin.readline()
store = SweepStore(sys.argv[1], "kept")
try:
    with store.locked():
        store.create(sweep)
        sys.stdin.readline()
        print(store.sweep_id())
except NameTakenError:
    print("taken")
"""


def test_simultaneous_starts_leave_one_sweep_with_one_id(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS, str(tmp_path)]
    starts = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in starts:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in starts:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = {process.communicate("end\n")[0].strip() for process in starts}
    assert said == {SweepStore(str(tmp_path), "kept").sweep_id(), "taken"}


WRITER = """
import os, signal, sys
from trainables.files.storage import Folder
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
Folder(sys.argv[1]).write("trial.json", b"{}")
"""


def test_files_of_killed_writers_are_deleted(store: SweepStore) -> None:
    folder = store.trial_folder(7)
    killed = subprocess.run([sys.executable, "-c", WRITER, folder.uri], check=False)
    assert killed.returncode < 0
    (left,) = Path(folder.path).iterdir()
    with store.locked():
        assert not left.exists()
        assert Path(folder.path).exists()
    assert store.load_sweep() == make_sweep("kept")


@pytest.mark.parametrize("fault", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_a_file_system_without_locks_has_leases(
    store: SweepStore, fault: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(fault, "no locks here")

    monkeypatch.setattr("fcntl.flock", flock)
    monkeypatch.setattr(lease, "LAPSES_AFTER", 1.0)
    with store.locked():
        assert lease.NAME in store.folder.names()
    assert lease.NAME not in store.folder.names()


def test_a_lock_that_cannot_be_had_is_reported(
    store: SweepStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(UserError, match=r"cannot be used: Input/output error"), store.locked():
        raise AssertionError("it is unknown whether it is locked")


def test_logs_of_remote_sweeps_are_private_and_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    paths = []
    for uri in ("s3://mine", "s3://other"):
        with driver_log(SweepStore(uri, "kept")) as path:
            paths.append(path)
    assert paths[0] != paths[1]
    assert paths[0].parent == paths[1].parent
    assert paths[0].parent.stat().st_mode & 0o777 == 0o700
    # A folder of another user with this name is not trusted.
    shutil.rmtree(paths[0].parent)
    (trap := tmp_path / "trap").mkdir()
    paths[0].parent.symlink_to(trap)
    with driver_log(SweepStore("s3://mine", "kept")) as path:
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not list(trap.iterdir())


def test_what_cannot_be_written_now_is_waited_for(
    store: SweepStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, faults, messages = Folder.write, [OSError(28, "full"), OSError(5, "away")], []

    def fails_twice(folder: Folder, name: str, data: bytes) -> None:
        if faults:
            raise faults.pop(0)
        write(folder, name, data)

    monkeypatch.setattr(Folder, "write", fails_twice)
    monkeypatch.setattr("sweeps.store.sweep_store._SECONDS_BETWEEN_TRIES", 0.0)
    with store.locked(Noted(messages)):
        store.save_answer({"sweep": "kept"})
    assert [reason for reason in ("full", "away") if reason in str(messages)] == [
        "full",
        "away",
    ]
    assert store.load_answer() == {"sweep": "kept"}


FULL_DISK = """
import resource, sys
from sweeps.store.storage import check_storage
from trainables.contract.setting import Setting
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
check_storage(sys.argv[1])
"""


def test_a_storage_that_takes_empty_files_only_is_reported(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, check=False
    )
    assert b"cannot be used: File too large" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_log_that_cannot_be_written_says_nothing(
    store: SweepStore, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(store.folder.path)
    (folder / "driver.log").symlink_to("/dev/full")
    with driver_log(store):
        logging.getLogger("calsweep").error("logged to no one")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("content", [b"", b'{"number": 1', b"[]", b'{"number": 1}', b"\xff"])
def test_a_damaged_record_is_named_and_left_out(tmp_path: Path, content: bytes) -> None:
    store = new_store(tmp_path, make_sweep("kept"), [baseline(), trial(1), trial(2)])
    store.trial_folder(1).write("trial.json", content)
    messages: list[str] = []
    assert [record.number for record in store.load_records(messages.append)] == [0, 2]
    file = f"{tmp_path}/sweeps/kept/trials/00001/trial.json"
    assert messages == [f"{file} is damaged; the trial is left out"]


def test_other_files_that_are_damaged_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(tmp_path, make_sweep("kept"))
    for name in ("answer.json", "warm_start.json"):
        store.folder.write(name, b"")
    assert store.load_answer() is None
    assert read_known(store.folder).earlier == []
    assert "answer.json is damaged" in caplog.text
    assert "warm_start.json is damaged" in caplog.text


def test_reading_waits_while_the_storage_is_away(
    store: SweepStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.store.sweep_store._SECONDS_BETWEEN_TRIES", 0.0)
    answers = iter([OSError("HTTP response code 503"), OSError(5, "Input/output error"), None])

    def read() -> int:
        if (fault := next(answers)) is not None:
            raise fault
        return 42

    messages: list[str] = []
    with store.locked(Noted(messages)):
        assert store.patiently(read) == 42
    assert "503" in messages[0]
    assert messages[1] == f"storage = {store.storage!r} cannot be used: Input/output error"
