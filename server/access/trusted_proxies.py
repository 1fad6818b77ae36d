"""The setting `--trusted-proxies` in the form that uvicorn uses."""

from __future__ import annotations

import ipaddress

from server.config import comma_separated
from server.errors import SettingsError


def trusted_hosts(text: str) -> list[str]:
    """Returns the addresses and networks of `--trusted-proxies`.

    Every IPv4 network is listed in its IPv6 form too, because a socket for both families reports
    IPv4 peers in that form. Raises SettingsError for an item that is neither an address nor a
    network.
    """
    if text.strip() == "*":
        return ["*"]
    hosts: list[str] = []
    for item in comma_separated(text):
        try:
            network = ipaddress.ip_network(item)
        except ValueError as error:
            raise SettingsError(
                "--trusted-proxies (ATTENTIVE_TRUSTED_PROXIES) must be addresses or networks like "
                "10.0.0.0/8, separated "
                f"by commas, or * alone; {item!r} is neither."
            ) from error
        hosts.append(str(network))
        if network.version == 4:
            hosts.append(f"::ffff:{network.network_address}/{96 + network.prefixlen}")
    return hosts
