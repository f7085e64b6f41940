"""redis: a pool that was made before the fork, commands, a connection that is refused."""

import redis

POOL = redis.ConnectionPool(host="127.0.0.1", port=1)
CLIENT = redis.Redis(connection_pool=POOL)


def work(number):
    command = b"".join(redis.connection.Connection().pack_command("SET", f"key {number}", number, "EX", 3))
    pipeline = CLIENT.pipeline()
    pipeline.set("a", 1).incr("b")
    try:
        CLIENT.get("key")
    except redis.ConnectionError as error:
        refused = type(error).__name__
    return [command.decode(), len(pipeline.command_stack), refused]
