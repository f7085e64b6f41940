"""A stop, for whom a connection is just about to be used: what a front server and a quick client do."""

import signal

import pytest
from starter import Start, wait_for


@pytest.mark.parametrize("kept", [False, True], ids=["new", "kept"])
def test_a_connection_of_just_now_is_answered_once_more(start: Start, shape: str, kept: bool) -> None:
    """New: it was accepted, and its request comes when nobody else is accepted any more. Kept: the same with one that
    was answered without a word of closing. Who says nothing for a second may be closed.
    """
    server = start(shape)
    connection = server.connection()
    connection.connect()
    # The other connection is accepted after this one, which therefore is too.
    wait_for(lambda: server.get()[0] == 200, "an answer")
    if kept:
        connection.request("GET", "/")
        assert not (answer := connection.getresponse()).will_close and answer.read()
    server.send(signal.SIGTERM)
    wait_for(server.refuses, "the end of accepting")
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.status == 200 and answer.will_close and answer.read()
    connection.close()
    assert server.end() == 0
