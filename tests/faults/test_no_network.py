"""Tests run without a network: the fixture in conftest.py refuses it."""

import socket
from urllib.request import urlopen

import pytest

WAYS = {
    "connect": lambda host: socket.socket().connect((host, 80)),
    "connect_ex": lambda host: socket.socket().connect_ex((host, 80)),
    "datagram": lambda host: socket.socket(type=socket.SOCK_DGRAM).sendto(b"", (host, 9)),
    "connection": lambda host: socket.create_connection((host, 80)),
    "name": lambda host: socket.getaddrinfo(host, 80),
    "page": lambda host: urlopen(f"http://{host}/"),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("host", ["192.0.2.1", "example.org"])
@pytest.mark.parametrize("way", WAYS)
def test_another_machine_is_refused_and_the_test_would_fail(way, host, refused):
    with pytest.raises(OSError, match="a test connects to"):
        WAYS[way](host)
    assert set(refused) == {host}
    refused.clear()  # else the fixture fails this test


def test_a_connection_to_this_machine_is_allowed(refused):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            socket.create_connection((host, port)).close()
    assert refused == []
