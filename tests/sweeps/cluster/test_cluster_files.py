"""Files for ``ray up`` and KubeRay: valid, of this version, and not publicly accessible."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.autoscaler._private.util import fillout_defaults, validate_config
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]


def minor_version(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


@pytest.fixture(scope="module")
def cluster() -> dict[str, Any]:
    text = (ROOT / "cluster.yaml").read_text()
    config: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return config


def test_ray_up_accepts_it(cluster: dict[str, Any]) -> None:
    validate_config(fillout_defaults(cluster))


def test_every_node_asks_for_the_token(cluster: dict[str, Any]) -> None:
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        (start,) = (command for command in cluster[key] if "ray start" in command)
        assert "RAY_AUTH_MODE=token" in start
    assert cluster["file_mounts"] == {"~/.ray/auth_token": "~/.ray/auth_token"}
    assert "chmod 600 ~/.ray/auth_token" in cluster["setup_commands"]


def test_it_is_not_open_to_the_world(cluster: dict[str, Any]) -> None:
    (rule,) = cluster["provider"]["security_group"]["IpPermissions"]
    assert (rule["FromPort"], rule["ToPort"]) == (22, 22)
    assert all(not each["CidrIp"].endswith("/0") for each in rule["IpRanges"])
    (start,) = (c for c in cluster["head_start_ray_commands"] if "ray start" in c)
    assert "--dashboard-host=127.0.0.1" in start


def test_workers_come_on_spot_first_and_go_when_idle(cluster: dict[str, Any]) -> None:
    types = cluster["available_node_types"]
    assert types[cluster["head_node_type"]]["resources"] == {"CPU": 0}
    assert cluster["idle_timeout_minutes"] <= 15
    for kind in ("gpu", "cpu"):
        spot, fallback = types[f"{kind}_spot"], types[f"{kind}_on_demand"]
        assert spot["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
        assert "InstanceMarketOptions" not in fallback["node_config"]
        assert spot["resources"] == fallback["resources"]
        assert spot["min_workers"] == fallback["min_workers"] == 0


def test_kuberay_gets_the_newest_tested_ray_with_a_token() -> None:
    text = (ROOT / "deploy/kuberay.yaml").read_text()
    cluster, job = YAML(typ="safe", pure=True).load_all(text)
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    assert minor_version(cluster["spec"]["rayVersion"]) >= minor_version(ray.__version__)
    assert cluster["spec"]["authOptions"] == {"mode": "token"}
    assert cluster["spec"]["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert {group["groupName"] for group in cluster["spec"]["workerGroupSpecs"]} == {"gpu", "cpu"}
    assert job["kind"] == "RayJob"
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}


def test_a_job_of_a_queue_resumes_whenever_it_starts_again() -> None:
    (job,) = YAML(typ="safe", pure=True).load_all((ROOT / "deploy/rayjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    spec = job["spec"]
    assert spec["suspend"] is spec["shutdownAfterJobFinishes"] is True
    assert "calsweep run quickstart --or-resume --address auto" in spec["entrypoint"]
    cluster = spec["rayClusterSpec"]
    assert minor_version(cluster["rayVersion"]) >= minor_version(ray.__version__)
    assert cluster["authOptions"] == {"mode": "token"}
    assert "enableInTreeAutoscaling" not in cluster  # Kueue does not admit it
    for group in cluster["workerGroupSpecs"]:
        assert group["replicas"] == group["minReplicas"] == group["maxReplicas"]


def test_bytecode_is_compiled_when_the_environment_is_made() -> None:
    """``cluster.yaml`` and users create environments with ``uv sync``, which reads this."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
    assert settings["compile-bytecode"] is True
    image = (ROOT / "deploy/Dockerfile").read_text()
    assert "--compile-bytecode" in image
    assert "compileall -q calsweep sweeps trainables search_spaces" in image


@pytest.mark.parametrize(
    "name", ["cluster.yaml", "deploy/kuberay.yaml", "deploy/rayjob.yaml", "deploy/Dockerfile"]
)
def test_no_secret_lies_in_them(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"AKIA[0-9A-Z]{16}|://[^/\s]+:[^/\s]+@", text)
