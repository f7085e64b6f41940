"""A cache in memory that the processes of one machine share, without a server. Its size is bounded.

    from poorhttp.cache import Cache
    cache = Cache("/dev/shm/mysite.cache")
    cache.set("greeting", "hello", timeout=60)

docs/cache.md says which processes share which cache. Imports the engine and the standard library.
"""

from poorhttp.cache.cache import Cache

__all__ = ["Cache"]
