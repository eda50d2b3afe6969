"""RabbitMQ, with a supply of virtual hosts made at its start.

`rabbitmqctl add_vhost` takes a second or two each time and the management API may not be there, so
the virtual hosts come from a definitions file that the server reads as it starts.
"""

import base64
import hashlib
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import amqp

from tests.support.processes import Process
from tests.support.server import LOOPBACK, START_TIMEOUT, Server, find_program, free_port
from tests.support.waiting import wait_until

USER = "guest"
CONFIG = """\
disk_free_limit.absolute = 1MB
load_definitions = {definitions}
"""


class RabbitMQ(Server):
    """A node in a temporary folder, with its own port mapper (epmd), which ends with it."""

    name = "rabbitmq"

    def __init__(self, virtual_hosts: int = 1) -> None:
        super().__init__()
        self._virtual_hosts = ["/", *(f"test-{number}" for number in range(virtual_hosts))]
        self._unused = iter(self._virtual_hosts[1:])
        self._node_port, self._mapper_port = free_port(), free_port()
        self._mapper: Process | None = None
        # Not the one in PATH: Debian's wrapper there switches the user.
        self._program = find_program(
            "rabbitmq-server", "rabbitmq-server", before="/usr/lib/rabbitmq/bin"
        )
        self._mapper_program = find_program("epmd", "rabbitmq-server")

    @property
    def url(self) -> str:
        """The default virtual host."""
        return self.virtual_host_url("/")

    def virtual_host_url(self, name: str) -> str:
        """One virtual host."""
        return f"amqp://{USER}:{USER}@{LOOPBACK}:{self.port}/{quote(name, safe='')}"

    @property
    def pids(self) -> list[int]:
        """The leaders of its two families: the node, and its port mapper."""
        return [process.pid for process in (self._process, self._mapper) if process]

    def fresh_url(self) -> str:
        """A virtual host that nobody has used."""
        return self.virtual_host_url(next(self._unused, None) or self._add_virtual_host())

    def prepare(self) -> None:
        definitions = self._write("definitions.json", _definitions(self._virtual_hosts))
        self._write("rabbitmq.conf", CONFIG.format(definitions=definitions))
        self._write("enabled_plugins", "[].\n")

    def environment(self) -> Mapping[str, str]:
        folder = self.folder
        return {
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ("-kernel inet_dist_use_interface {127,0,0,1}"),
        }

    def command(self) -> list[str | Path]:
        return [self._program]

    def start(self) -> None:
        # The node would start one by itself, as a daemon that outlives it.
        if self._mapper is None or not self._mapper.running:
            mapper: list[str | Path] = [self._mapper_program, "-port", str(self._mapper_port)]
            self._mapper = self._run(mapper, self.folder / "epmd.log", self.environment())
            wait_until(self._mapper_listens, START_TIMEOUT, "epmd")
        super().start()

    def stop(self) -> None:
        super().stop()
        self._end_mapper()

    def kill(self) -> None:
        super().kill()
        self._end_mapper()

    def check(self) -> None:
        last = self._virtual_hosts[-1]
        login = {"userid": USER, "password": USER, "virtual_host": last}
        with amqp.Connection(f"{LOOPBACK}:{self.port}", connect_timeout=2, **login):
            pass

    def _end_mapper(self) -> None:
        if self._mapper is not None:
            self._mapper.kill9()

    def _mapper_listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self._mapper_port)) == 0

    def _add_virtual_host(self) -> str:
        name = f"test-{len(self._virtual_hosts) - 1}"
        self._virtual_hosts.append(name)
        for order in (("add_vhost", name), ("set_permissions", "-p", name, USER, *[".*"] * 3)):
            self._control(*order)
        return name

    def _control(self, *order: str) -> None:
        program = self._program.with_name("rabbitmqctl")
        done = self._run([program, *order], self.folder / "rabbitmqctl.log", self.environment())
        if done.wait(START_TIMEOUT) != 0:
            raise RuntimeError(f"rabbitmqctl {order} failed:\n{done.tail()}")


def _definitions(virtual_hosts: list[str]) -> str:
    salt = b"test"
    secret = base64.b64encode(salt + hashlib.sha256(salt + USER.encode()).digest()).decode()
    everything = {"user": USER, "configure": ".*", "write": ".*", "read": ".*"}
    return json.dumps(
        {
            "users": [
                {
                    "name": USER,
                    "password_hash": secret,
                    "hashing_algorithm": "rabbit_password_hashing_sha256",
                    "tags": "administrator",
                }
            ],
            "vhosts": [{"name": name} for name in virtual_hosts],
            "permissions": [{"vhost": name, **everything} for name in virtual_hosts],
        }
    )
