"""The files in deploy/ are valid, and name only what there is."""

import configparser
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from celery import Celery
from celery.bin.base import CLIContext
from celery.bin.celery import celery as celery_command

from celery_dbbeat.cli import dbbeat
from celery_dbbeat.observe.catalogue import ALL
from celery_dbbeat.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted(DEPLOY.glob("kubernetes/*.yaml"))
COMPOSE = DEPLOY / "compose/compose.yaml"
UNIT = DEPLOY / "systemd/dbbeat.service"
RULES = DEPLOY / "prometheus/rules.yml"
DASHBOARD = DEPLOY / "grafana/celery-dbbeat.json"
#: Of systemd, Prometheus and Kubernetes, that look like commands of ours or are none.
OTHERS = {"redis-server"}


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one is not None]


def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(re.sub(r"(?m)^#.*$", "", UNIT.read_text()))
    return parser


def containers() -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        for document in documents(path):
            template = document["spec"].get("template")
            yield from template["spec"]["containers"] if template else ()


def commands() -> list[list[str]]:
    """Every command that a file of ours runs."""
    services = documents(COMPOSE)[0]["services"].values()
    found = [one["command"] for one in (*containers(), *services) if "command" in one]
    tests = [one["healthcheck"]["test"] for one in services if "healthcheck" in one]
    found += [test[1:] for test in tests if test[0] == "CMD"]
    (started,) = re.findall(r"(?m)^ExecStart=(.*)$", UNIT.read_text())
    found.append(["celery", *shlex.split(started)[1:]])
    return [one for one in found if one[0] not in OTHERS]


def environment() -> set[str]:
    """Every variable of ours that a file sets."""
    text = "\n".join(path.read_text() for path in (*MANIFESTS, COMPOSE, UNIT))
    return set(re.findall(r"\bDBBEAT_[A-Z_]+", text))


def expressions() -> list[str]:
    rules = documents(RULES)[0]["groups"][0]["rules"]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    return [rule["expr"] for rule in rules] + shown


def names_of(metric: str) -> set[str]:
    """The names of a metric's samples."""
    (found,) = (one for one in ALL if one.name == metric)
    if found.kind == "histogram":
        return {f"{metric}_{suffix}" for suffix in ("bucket", "sum", "count")}
    return {metric}


KNOWN = {name for metric in ALL for name in names_of(metric.name)}


def test_there_is_something_to_look_at() -> None:
    assert len(MANIFESTS) == 3
    assert len(commands()) == 8
    assert {"DBBEAT_URL_FILE", "DBBEAT_HTTP", "DBBEAT_WORKER_HTTP"} <= environment()


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_metrics_that_are_served(expression: str) -> None:
    named = set(re.findall(r"\bdbbeat_\w+", expression))
    assert named
    assert named <= KNOWN


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_labels_that_there_are(expression: str) -> None:
    by_name = {name: one for one in ALL for name in names_of(one.name)}
    for name, label, value in re.findall(r'(dbbeat_\w+)\{(\w+)="(\w+)"\}', expression):
        assert by_name[name].label == label
        assert value in by_name[name].values
    labels = {one.label for one in ALL} | {"le"}
    for grouped in re.findall(r"by \(([\w, ]+)\)", expression):
        assert set(grouped.split(", ")) <= labels


def test_every_metric_has_a_place_on_the_dashboard() -> None:
    shown = DASHBOARD.read_text()
    assert [one.name for one in ALL if one.name not in shown] == []


def test_the_dashboard_is_one() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters) > 0


def test_alerts_go_off_when_they_should() -> None:
    """By Prometheus' own tool: the cases are in the file beside the rules."""
    done = subprocess.run(
        ["promtool", "test", "rules", "rules_test.yml"],
        cwd=RULES.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tried() -> None:
    alerts = {rule["alert"] for rule in documents(RULES)[0]["groups"][0]["rules"]}
    cases = documents(RULES.with_name("rules_test.yml"))[0]["tests"]
    going_off = {
        one["alertname"]
        for case in cases
        for one in case["alert_rule_test"]
        if one.get("exp_alerts")
    }
    assert going_off == alerts
    assert len(alerts) == 6


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_a_command_is_one_that_there_is(command: list[str]) -> None:
    name, *arguments = command
    assert name == "celery"
    app, option, *rest = arguments[0], arguments[1], *arguments[2:]
    assert (app, option) == ("-A", "shop")
    group: click.Command = celery_command
    known = CLIContext(app=Celery("shop", set_as_current=False), no_color=True, workdir=None)
    context = click.Context(celery_command, obj=known)
    while isinstance(group, click.Group):
        group = dbbeat if rest[0] == "dbbeat" else group.commands[rest[0]]
        rest = rest[1:]
        with context:
            given = rest[:1] if isinstance(group, click.Group) else rest
            context = group.make_context(group.name, list(given), parent=context)


@pytest.mark.parametrize("variable", sorted(environment()))
def test_a_variable_is_a_setting(variable: str) -> None:
    name = variable.removeprefix("DBBEAT_").lower()
    in_files = {"url_file", "listen_url_file"}
    assert name in {field.name for field in fields(Settings)} | in_files


def test_probes_ask_what_is_served_where_it_is_served() -> None:
    probed = 0
    for container in containers():
        ports = {one["name"]: one["containerPort"] for one in container.get("ports", ())}
        values = {one["name"]: one.get("value") for one in container["env"]}
        serving = values.get("DBBEAT_HTTP") or values.get("DBBEAT_WORKER_HTTP")
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            if kind in container:
                probe = container[kind]["httpGet"]
                wanted = "/ready" if kind == "readinessProbe" else "/live"
                assert probe["path"] == wanted
                assert serving == f"0.0.0.0:{ports[probe['port']]}"
                probed += 1
    assert probed == 5


def test_manifests_go_together() -> None:
    by_kind = {one["kind"]: one for path in MANIFESTS for one in documents(path)}
    deployments = [
        one for path in MANIFESTS for one in documents(path) if one["kind"] == "Deployment"
    ]
    beat = next(one for one in deployments if one["metadata"]["name"] == "dbbeat")
    assert beat["spec"]["replicas"] == 2
    labels = beat["spec"]["template"]["metadata"]["labels"]
    assert by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    for one in (*deployments, by_kind["Job"]):
        pod = one["spec"]["template"]
        if one["kind"] == "Deployment":
            assert one["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
        mounted = {m["name"] for c in pod["spec"]["containers"] for m in c["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}


def test_the_unit_has_its_sections() -> None:
    parser = unit()
    assert parser.sections() == ["Unit", "Service", "Install"]
    assert parser["Service"]["restart"] == "always"


def test_compose_names_what_it_has() -> None:
    (compose,) = documents(COMPOSE)
    for service in compose["services"].values():
        assert set(service.get("secrets", ())) <= compose["secrets"].keys()
        assert set(service.get("depends_on", ())) <= compose["services"].keys()
