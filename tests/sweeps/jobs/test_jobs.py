"""Sweeps submitted as jobs to a real Ray cluster that requires a token."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sweeps.jobs.jobs
from sweeps.errors import UserError
from sweeps.jobs.client import ask, dashboard_url
from sweeps.jobs.jobs import submit_resume
from sweeps.jobs.shipping import SWEEP_FILE, stage
from sweeps.planning.portability import check_reachable
from sweeps.search.record import TrialRecord
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import dump_sweep, parse_sweep
from tests.builders import is_kept
from tests.harness import command
from tests.harness.ray_cluster import RayCluster, free_port

TOKEN = "0123456789abcdef0123456789abcdef"
OWN_LOSS = """
import time
from pathlib import Path

import trainables
from torch.nn.functional import cross_entropy
from trainables.losses import CalibrationLoss

HERE = Path({folder!r})

class Held(CalibrationLoss):
    '''Cross-entropy that waits while it is reported to, so that there is something to stop.'''
    looks_across_batch = False
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
        self.alpha = alpha
    def on_epoch_end(self):
        (HERE / "code_used").write_text(trainables.__file__)
        while (HERE / "hold").exists():
            time.sleep(0.1)
    def compute(self, logits, targets, indices, features):
        return cross_entropy(logits, targets) * self.alpha
"""
TRIALS = 6
SWEEP = {
    "name": "remote",
    "dataset": {"name": "digits", "train_samples": 200},
    "model": {"name": "small_cnn", "width": 4},
    "losses": [
        {"name": "own.held:Held", "space": {"alpha": {"low": 0.5, "high": 2.0}}},
    ],
    "training": {"epochs": 2, "batch_size": 64, "lr": 0.05},
    "search": {"trials": TRIALS, "sampler": "tpe"},
    "selection": {"finalists": 0},
    "scheduler": {"name": "none"},
    "scaling": {"max_concurrent": 1},  # one process to start
    "tracking": {"experiment": "far-away"},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    cluster = RayCluster(head_cpus=2, token=TOKEN)
    yield cluster
    cluster.stop()
    shutil.rmtree(cluster.temporary, ignore_errors=True)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with files that must not be sent."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "own").mkdir()
    (folder / "own/__init__.py").touch()
    (folder / "own/held.py").write_text(OWN_LOSS.format(folder=str(folder)))
    (folder / "sweep.yaml").write_text(dump_sweep(parse_sweep(SWEEP)))
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / ".gitignore").write_text("ignored*.py")
    for name in (
        ".env",
        ".netrc",
        "key.pem",
        "credentials.json",
        "data/train.parquet",
        ".secret/key.py",
        "ignored_keys.py",
        "calsweep-store/mlflow.db",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("secret")
    (folder / "venv/lib").mkdir(parents=True)
    (folder / "venv/pyvenv.cfg").touch()
    (folder / "venv/lib/package.py").touch()
    (folder / "gone.py").symlink_to(folder / "nowhere.py")
    return folder


def environment(folder: Path, token: str | None = TOKEN) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "MLFLOW_"))}
    kept["HOME"] = str(folder)  # has no .ray/auth_token
    return kept | ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else {})


def calsweep(
    folder: Path, *arguments: str, token: str | None = TOKEN, **variables: str
) -> subprocess.CompletedProcess[str]:
    known = environment(folder, token)
    return command.calsweep(folder, *arguments, environment=known, **variables)


def sent_to(cluster: RayCluster) -> set[str]:
    """All files sent with a submitted job, except those of calsweep."""
    [*_, package] = Path(cluster.temporary).glob("session_2*/runtime_resources/*/_ray_pkg_*[!k]")
    assert (package / "sweeps/pages/report.html.j2").is_file()
    assert (package / "calsweep-0.1.0.dist-info/METADATA").is_file()
    own = ("calsweep", "sweeps", "trainables", "search_spaces", "calsweep-0.1.0.dist-info")
    names = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}
    return {str(name) for name in names if name.parts[0] not in own and name.suffix != ".pyc"}


def wait_for(what: Callable[[], bool], why_not: Callable[[], str]) -> None:
    until = time.monotonic() + 300
    while not what():
        assert time.monotonic() < until, why_not()
        time.sleep(0.3)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sweep_is_submitted_stopped_and_resumed(cluster: RayCluster, workplace: Path) -> None:
    store, hold = str(workplace / "store"), workplace / "hold"
    at = ("--address", cluster.url)
    place = (*at, "--storage", store)
    hold.touch()
    # Arguments take precedence over variables, which Ray's client would prefer.
    elsewhere = {
        "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:1",
        "RAY_ADDRESS": "127.0.0.1:1",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    sent = calsweep(workplace, "submit", "sweep.yaml", *place, **elsewhere)
    assert sent.returncode == 0, sent.stderr
    (said,) = sent.stderr.splitlines()
    assert said.startswith("sending the sweep, calsweep 0.1.0, and of this folder 2 Python modules")
    assert said.endswith(" 1 KB: own/__init__.py, own/held.py; nothing else")
    *hints, job = sent.stdout.splitlines()
    assert job.startswith("remote-")
    assert hints == [
        f"  output     calsweep logs {job} --follow --address {cluster.url}",
        f"  state      calsweep status {job} --address {cluster.url}",
        f"  stop       calsweep stop {job} --address {cluster.url}",
        f"  dashboard  {cluster.url}/#/jobs/{job} (asks for the token in RAY_AUTH_TOKEN)",
    ]

    sweep = SweepStore(store, "remote")

    def finished() -> dict[int, float | None]:
        return {r.number: r.ended for r in sweep.load_records() if r.state == "finished"}

    # The baseline finishes; the next one waits until `hold` is deleted.
    wait_for(
        lambda: bool(finished()) and (workplace / "code_used").exists(),
        lambda: calsweep(workplace, "logs", job, *at).stdout,
    )
    assert "_ray_pkg_" in (workplace / "code_used").read_text()
    assert sweep.load_sweep().tracking == parse_sweep(SWEEP).tracking
    assert sent_to(cluster) == {"own/__init__.py", "own/held.py", SWEEP_FILE}
    running = calsweep(workplace, "status", "remote", RAY_API_SERVER_ADDRESS=cluster.url).stdout
    command_run = r"command +python -m sweeps\.cli run"
    for fact in (r"state +RUNNING", command_run, rf"progress +\d/{TRIALS} trials · "):
        assert re.search(fact, running)
    there = calsweep(workplace, "list", *at).stdout
    assert re.search(rf"remote +{job} +running +\S+ \S+ +1 +\d+\n", there), there
    taken = calsweep(workplace, "submit", "sweep.yaml", *place)
    assert (taken.returncode, "a sweep of this name exists" in taken.stderr) == (2, True)
    twice = calsweep(workplace, "resume", "remote", *place)
    assert twice.returncode == 2
    assert f"sweep 'remote' is being run by job {job}" in twice.stderr

    stopped = calsweep(workplace, "stop", job, *at)
    assert stopped.returncode == 0, stopped.stderr
    assert f"{job}: STOPPED" in stopped.stdout
    assert f"`calsweep resume remote --storage {store} --address {cluster.url}`" in stopped.stdout
    assert (
        f"interrupted; `calsweep resume remote --address {cluster.url} --storage "
        in calsweep(workplace, "logs", job, *at).stdout
    )
    before = finished()
    assert 0 < len(before) < TRIALS

    hold.unlink()
    followed = calsweep(workplace, "submit", "sweep.yaml", "--or-resume", "--follow", *place)
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert f"{TRIALS}/{TRIALS} trials · 0 running" in followed.stdout
    assert " selected" in followed.stdout
    records = sweep.load_records()
    assert [record.state for record in records] == ["finished"] * TRIALS
    assert {number: records[number].ended for number in before} == before

    listed = calsweep(workplace, "status", *at).stdout
    assert "SUCCEEDED" in listed
    assert "STOPPED" in listed


@pytest.mark.slow
def test_a_job_that_fails(cluster: RayCluster, workplace: Path) -> None:
    at = ("--address", cluster.url)
    unseen = str(workplace / "not-on-this-machine")  # an existing folder would be checked at once
    missing = calsweep(workplace, "resume", "nosuch", *at, "--storage", unseen)
    job = missing.stdout.splitlines()[-1]
    followed = calsweep(workplace, "logs", job, "--follow", *at)
    assert followed.returncode == 1
    assert "calsweep: no sweep named 'nosuch'" in followed.stdout
    assert followed.stderr == (
        f"calsweep: job {job} failed: Job entrypoint command failed with exit code 2\n"
    )
    status = calsweep(workplace, "status", job, *at).stdout
    assert re.search(r"reason +no sweep named 'nosuch'", status), status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("token", "message"),
    [
        (None, r"asks for a token: no token; set RAY_AUTH_MODE=token and the token in"),
        ("f" * 32, r"the token is not the cluster's; set the token in RAY_AUTH_TOKEN"),
    ],
)
def test_a_token_that_is_missing_or_wrong(
    cluster: RayCluster, workplace: Path, token: str | None, message: str
) -> None:
    refused = calsweep(workplace, "status", "--address", cluster.url, token=token)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_a_job_that_is_not_there(cluster: RayCluster, workplace: Path) -> None:
    refused = calsweep(workplace, "logs", "remot", "--address", cluster.url)
    assert refused.returncode == 2
    assert "no job 'remot'" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--address", "ftp://x"], "--address ftp://x: not allowed; allowed: the URL"),
        (["--set", "training.epoch=1"], "set training.epoch=1: unknown key 'epoch'"),
        (["--set", "losses=[own.helt:Held]"], "own.helt:Held"),
        (["--storage", "relative"], "storage = 'relative' is a folder of this machine"),
        (["--address", "http://127.0.0.1:{port}"], "no Ray dashboard answers there"),
    ],
)
def test_what_is_wrong_is_reported_before_anything_is_sent(
    workplace: Path, arguments: list[str], message: str
) -> None:
    given = [argument.format(port=free_port()) for argument in arguments]
    storage = [] if "--storage" in given else ["--storage", str(workplace / "none")]
    refused = calsweep(workplace, "submit", "sweep.yaml", *storage, *given)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("address", "variables", "url"),
    [
        (None, {}, "http://127.0.0.1:8265"),
        (None, {"RAY_ADDRESS": "auto"}, "http://127.0.0.1:8265"),
        (None, {"RAY_ADDRESS": "http://a:1"}, "http://a:1"),
        (None, {"RAY_ADDRESS": "http://a:1", "RAY_API_SERVER_ADDRESS": "http://b:2"}, "http://b:2"),
        ("http://c:3/", {"RAY_API_SERVER_ADDRESS": "http://b:2"}, "http://c:3"),
        ("c:3", {}, "http://c:3"),
        ("https://ray.example.org/there", {}, "https://ray.example.org/there"),
    ],
)
def test_the_address(
    monkeypatch: pytest.MonkeyPatch, address: str | None, variables: dict[str, str], url: str
) -> None:
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert dashboard_url(address) == url


@pytest.mark.parametrize(
    "address", ["x", "http://x", "http://x:y", "http://:1", "http://[::1", "ray://head:10001", "/a"]
)
def test_an_address_that_is_none(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    allowed = "not allowed; allowed: the URL of the cluster's dashboard, such as http://127"
    with pytest.raises(UserError) as refused:
        dashboard_url(address)
    assert f"address = {address}: {allowed}" in str(refused.value)
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", address)
    with pytest.raises(UserError) as refused:
        dashboard_url(None)
    assert f"RAY_API_SERVER_ADDRESS = {address!r} is {allowed}" in str(refused.value)


def test_a_job_server_that_does_not_answer() -> None:
    with pytest.raises(UserError, match=r"there \([^()]*Connection refused\); give its address"):
        ask(f"http://127.0.0.1:{free_port()}", "/api/jobs/")


def test_too_much_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from/large.py").write_bytes(b"#" * (11 * 2**20))
    with pytest.raises(UserError, match="more than 10 MiB"):
        stage(tmp_path / "from", tmp_path, None)


def test_a_module_that_the_sweep_names_and_git_ignores(workplace: Path, tmp_path: Path) -> None:
    sweep = parse_sweep({**SWEEP, "losses": ["ignored_keys:Loss"]})
    with pytest.raises(UserError, match=r"ignored_keys\.py is not sent, as git ignores it"):
        stage(workplace, tmp_path, sweep)


def test_a_module_that_would_hide_calsweeps(tmp_path: Path) -> None:
    (tmp_path / "from/trainables").mkdir(parents=True)
    (tmp_path / "from/trainables/mine.py").touch()
    says = r"mine\.py hides calsweep's package 'trainables'; rename that folder"
    with pytest.raises(UserError, match=says):
        stage(tmp_path / "from", tmp_path / "to", None)


def test_calsweeps_own_folder_is_sent_once(tmp_path: Path) -> None:
    shipment = stage(Path(sweeps.jobs.jobs.__file__).parents[2], tmp_path, None)
    assert (tmp_path / "trainables/losses/focal.py").is_file()
    assert not any(name.startswith("trainables/") for name in shipment.modules)


def parquet(**paths: str | list[str]) -> dict[str, object]:
    return {"dataset": {"name": "parquet", "train": "/d/a.parquet", "test": "/d/b.parquet"} | paths}


@pytest.mark.parametrize(
    ("storage", "sections", "message"),
    [
        ("store", {}, r"storage = 'store' is a folder of this machine"),
        ("s3://me:secret@bucket/x", {}, r"storage holds a password"),
        (
            "/s",
            parquet(train="a.parquet"),
            r"dataset\.train = 'a\.parquet' is relative to this fol",
        ),
        ("/s", parquet(test="s3://me:secret@b/x"), r"dataset\.test holds a password"),
        (
            "/s",
            {"tracking": {"uri": "sqlite:///m.db"}},
            r"'sqlite:///m\.db' is a file of this mach",
        ),
        ("/s", {"tracking": {"uri": "http://me:secret@m:5000"}}, r"tracking\.uri holds a password"),
        (
            "/s",
            {"model": {"name": "small_cnn", "weights": "s3://me:secret@b/w.pt"}},
            r"model\.weig",
        ),
        (
            "/s",
            {"dataset": {"name": "my:load", "connection": "postgresql://me:secret@db/x"}},
            r"dataset\.connection holds a password",
        ),
        (
            "/s",
            {"dataset": {"name": "my:load", "connection": "host=db user=me password=secret"}},
            r"dataset\.connection holds a password",
        ),
        ("/s", {"dataset": {"name": "my:load", "api_key": "secret"}}, r"dataset\.api_key holds"),
        (
            "/s",
            {"dataset": {"name": "my:load", "parts": [{"at": ["s3://b/1", "s3://me:secret@b/2"]}]}},
            r"dataset\.parts\.at holds a password",
        ),
        (
            "/s",
            parquet(train=["/d/a.parquet", "b.parquet"]),
            r"dataset\.train = 'b\.parquet' is relative to this fol",
        ),
    ],
)
def test_what_another_machine_would_not_know(
    storage: str, sections: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message) as refused:
        check_reachable(storage, parse_sweep({**SWEEP, **sections}))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "override",
    [
        "model.weights=s3://me:secret@b/w",
        "training.lr=1",
        "search.trials=secret",
        "search={trials: 1}",
    ],
)
def test_a_resume_sends_no_value_that_is_no_budget(
    override: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(*_: object) -> None:
        raise AssertionError("it is sent")

    monkeypatch.setattr("sweeps.jobs.jobs._submit", send)
    with pytest.raises(UserError, match=r"allowed: search\.trials=NUMBER") as refused:
        submit_resume("birds", "s3://bucket/x", None, ["search.max_hours=8", override], print)
    assert "secret" not in str(refused.value)
    with pytest.raises(AssertionError, match="it is sent"):
        budgets = ["search.max_hours=.5", "search.trials=90"]
        submit_resume("birds", "s3://bucket/x", None, budgets, print)


@pytest.mark.parametrize("tracking", [None, "sqlite:////mnt/m.db", "http://m:5000"])
@pytest.mark.parametrize("storage", ["/mnt/store", "s3://bucket/store", "gs://anonymous@bucket/x"])
def test_what_another_machine_may_know(storage: str, tracking: str | None) -> None:
    sections = parquet(test="s3://bucket/test.parquet")
    check_reachable(storage, parse_sweep({**SWEEP, **sections, "tracking": {"uri": tracking}}))


@pytest.mark.slow
@pytest.mark.parametrize("token", [None, "f" * 32])
def test_a_driver_with_a_wrong_token_ends_at_once(
    cluster: RayCluster, workplace: Path, token: str | None
) -> None:
    options = ("--address", cluster.address, "--storage", str(workplace / "store"))
    refused = calsweep(workplace, "run", "sweep.yaml", "--name", "refused", *options, token=token)
    assert refused.returncode == 2
    *_, last = refused.stderr.splitlines()
    place = f"--address {cluster.address}"
    assert last.startswith(f"calsweep: {place}: the cluster asks for a token")
    assert "InvalidAuthToken" not in refused.stderr  # a line of Ray's


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_cluster_goes_away_and_a_recreated_job_loses_nothing(
    cluster: RayCluster, workplace: Path
) -> None:
    """The last test of the cluster, as another one takes its place, like pods of Kubernetes."""
    hold = workplace / "hold"
    hold.touch()
    store, sweep = str(workplace / "store"), SweepStore(str(workplace / "store"), "lost")
    at = ("--address", cluster.url)
    sent = calsweep(workplace, "submit", "sweep.yaml", "--name", "lost", *at, "--storage", store)
    assert sent.returncode == 0, sent.stderr

    def finished() -> dict[int, TrialRecord]:
        return {r.number: r for r in sweep.load_records() if r.state == "finished"}

    wait_for(lambda: bool(finished()), lambda: calsweep(workplace, "logs", "lost", *at).stdout)
    with subprocess.Popen(
        [command.CALSWEEP, "logs", "lost", "--follow", *at],
        cwd=workplace,
        env=environment(workplace),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        following.stdout.readline()
        cluster.head.kill()
        assert following.stderr is not None
        said = following.stderr.readline()
        following.terminate()
    assert said == f"the connection to {cluster.url} was lost; reconnecting\n"

    before = finished()
    assert 0 < len(before) < TRIALS
    hold.unlink()
    cluster.start_head()
    place = ("--address", cluster.address, "--storage", store)  # as in deploy/rayjob.yaml
    for _ in range(2):  # the second time, everything exists
        run = calsweep(workplace, "run", "sweep.yaml", "--name", "lost", "--or-resume", *place)
        assert run.returncode == 0, run.stderr
        after = finished()
        assert len(after) == TRIALS
        assert all(is_kept(record, after[number]) for number, record in before.items())
    assert sweep.load_answer() is not None


def test_a_sweep_that_does_not_exist_is_not_resumed_as_a_job(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no sweep named 'birds'"):
        submit_resume("birds", str(tmp_path), None, (), print)
