"""The Kubernetes manifests, by the fields of KubeRay's API ``ray.io/v1`` and Kueue's rules."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

DEPLOY = Path(__file__).parents[3] / "deploy"
TEXT, NUMBER, SWITCH = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def fields(*required: str, **known: object) -> dict[str, object]:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "properties": known,
        "required": list(required),
        "additionalProperties": False,
    }


def some(item: object) -> dict[str, object]:
    return {"type": "array", "items": item, "minItems": 1}


# A subset of the fields of KubeRay 1.7 and Kubernetes that our manifests could need.
QUANTITIES = {
    "type": "object",
    "additionalProperties": {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|[KMGT]i?)?$"},
}
CONTAINER = fields(
    "name",
    "image",
    name=TEXT,
    image=TEXT,
    env=some(fields("name", name=TEXT, value=TEXT, valueFrom={"type": "object"})),
    resources=fields(requests=QUANTITIES, limits=QUANTITIES),
    volumeMounts=some(fields("name", "mountPath", name=TEXT, mountPath=TEXT)),
)
POD = fields(
    "spec",
    metadata=fields(labels=TEXTS, annotations=TEXTS),
    spec=fields(
        "containers",
        serviceAccountName=TEXT,
        terminationGracePeriodSeconds=NUMBER,
        containers=some(CONTAINER),
        nodeSelector=TEXTS,
        priorityClassName=TEXT,
        volumes=some({"type": "object"}),
    ),
)
CLUSTER = fields(
    "headGroupSpec",
    rayVersion=TEXT,
    authOptions=fields(mode={"enum": ["disabled", "token"]}, secretName=TEXT),
    enableInTreeAutoscaling=SWITCH,
    autoscalerOptions=fields(
        idleTimeoutSeconds=NUMBER,
        upscalingMode={"enum": ["Default", "Aggressive", "Conservative"]},
        version={"enum": ["v1", "v2"]},
    ),
    headGroupSpec=fields(
        "rayStartParams",
        "template",
        serviceType={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
        rayStartParams=TEXTS,
        template=POD,
    ),
    workerGroupSpecs=some(
        fields(
            *("groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"),
            groupName=TEXT,
            replicas=NUMBER,
            minReplicas=NUMBER,
            maxReplicas=NUMBER,
            rayStartParams=TEXTS,
            template=POD,
        )
    ),
)
JOB = fields(
    "entrypoint",
    entrypoint=TEXT,
    suspend=SWITCH,
    shutdownAfterJobFinishes=SWITCH,
    ttlSecondsAfterFinished=NUMBER,
    activeDeadlineSeconds=NUMBER,
    backoffLimit=NUMBER,
    clusterSelector=TEXTS,
    rayClusterSpec=CLUSTER,
    runtimeEnvYAML=TEXT,
    submissionMode={"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]},
)
SPECS = {"RayCluster": CLUSTER, "RayJob": JOB}
NAME = {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 47}


def schema(kind: str) -> dict[str, object]:
    return fields(
        *("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": "ray.io/v1"},
        kind={"const": kind},
        metadata=fields("name", name=NAME, labels=TEXTS, annotations=TEXTS),
        spec=SPECS[kind],
    )


def manifests() -> list[Any]:
    read = YAML(typ="safe", pure=True)
    return [each for file in sorted(DEPLOY.glob("*.yaml")) for each in read.load_all(file)]


@pytest.mark.parametrize("manifest", manifests(), ids=lambda each: each["metadata"]["name"])
def test_kuberay_knows_every_field(manifest: Any) -> None:
    validator = Draft202012Validator(schema(manifest["kind"]))
    assert [f"{e.json_path}: {e.message}" for e in validator.iter_errors(manifest)] == []


@pytest.mark.parametrize("manifest", manifests(), ids=lambda each: each["metadata"]["name"])
def test_the_operator_accepts_a_job(manifest: Any) -> None:
    """Further rules of KubeRay, and of Kueue for jobs in its queues."""
    spec = manifest["spec"]
    cluster = spec if manifest["kind"] == "RayCluster" else spec.get("rayClusterSpec")
    if cluster is not None and cluster["authOptions"]["mode"] == "token":
        assert tuple(map(int, cluster["rayVersion"].split("."))) >= (2, 52)
    if manifest["kind"] == "RayJob":
        assert ("rayClusterSpec" in spec) != ("clusterSelector" in spec)
        if spec.get("suspend") or spec.get("ttlSecondsAfterFinished"):
            assert spec["shutdownAfterJobFinishes"]
    if "kueue.x-k8s.io/queue-name" in manifest["metadata"].get("labels", {}):
        assert spec["shutdownAfterJobFinishes"]
        assert not cluster.get("enableInTreeAutoscaling")
        assert len(cluster["workerGroupSpecs"]) <= 7
