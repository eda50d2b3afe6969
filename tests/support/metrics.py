"""Metrics as Prometheus understands them."""

from prometheus_client.parser import text_string_to_metric_families

from tests.support.http import ask

Samples = dict[tuple[str, str], float]


def samples(text: str) -> Samples:
    """Numbers by the sample's name and the value of its only label of ours, if it has one."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = [value for name, value in sample.labels.items() if name != "le"]
            found[sample.name, labels[0] if labels else ""] = sample.value
    return found


def scrape(port: int) -> Samples:
    """What a process shows just now."""
    answer = ask(port, "/metrics")
    assert answer.status == 200, answer.text
    return samples(answer.text)
