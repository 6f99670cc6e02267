"""Tests run without a network: the fixture in conftest.py refuses it."""

import socket

import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.org", 80)])
def test_a_connection_to_another_machine_is_refused(address):
    with socket.socket() as made, pytest.raises(OSError, match="a test connects to"):
        made.connect(address)


def test_a_connection_to_this_machine_is_allowed():
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
