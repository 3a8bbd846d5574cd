"""The commands of redis-py against a server at argv[1]: it fails at the first answer that is not the expected one."""

import sys

import redis

host, port = sys.argv[1].split(":")
r = redis.Redis(host=host, port=int(port))
raw = redis.Redis(host=host, port=int(port), decode_responses=True, client_name="test")
r.flushall()


def refused(text, f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except redis.ResponseError as e:
        assert text in str(e), e
    else:
        raise AssertionError("not refused: " + text)


assert r.ping()
bf, cf = r.bf(), r.cf()
assert bf.create("b", 0.01, 1000, expansion=4)
assert bf.add("b", "x") == 1
assert bf.madd("b", "x", "y") == [0, 1]
assert bf.insert("b2", ["x", "y"], capacity=50, error=0.1, noScale=True) == [1, 1]
assert bf.exists("b", "x") == 1
assert bf.mexists("b", "x", "absent") == [1, 0]
info = bf.info("b")
assert (info.capacity, info.insertedNum, info.expansionRate, info.filterNum) == (1000, 2, 4, 1)
refused("item exists", bf.create, "b", 0.01, 1000)
refused("not found", bf.info, "none")
iterator = 0
while True:
    iterator, chunk = r.execute_command("BF.SCANDUMP", "b", iterator)
    if iterator == 0:
        break
    assert bf.loadchunk("copy", iterator, chunk)
assert bf.mexists("copy", "x", "y", "absent") == [1, 1, 0]
assert r.execute_command("BF.SCANDUMP", "b", 0) == r.execute_command("BF.SCANDUMP", "copy", 0)

assert cf.create("c", 1000, bucket_size=4, max_iterations=50, expansion=2)
assert cf.add("c", "x") == 1
assert cf.addnx("c", "x") == 0
assert cf.insert("c", ["x", "y"]) == [1, 1]
assert cf.insertnx("c", ["x", "z"]) == [0, 1]
assert cf.exists("c", "y") == 1
assert cf.count("c", "x") == 2
assert cf.delete("c", "x") == 1
info = cf.info("c")
assert (info.insertedNum, info.deletedNum, info.bucketSize, info.maxIteration) == (3, 1, 4, 50)
refused("Not found", cf.delete, "none", "x")

assert raw.set("s", "v") and raw.get("s") == "v"
refused("WRONGTYPE", bf.add, "s", "x")
with r.pipeline() as p:
    p.execute_command("BF.ADD", "b", "z")
    p.execute_command("BF.EXISTS", "b", "z")
    assert p.execute() == [1, 1]
with r.pipeline() as p:
    p.watch("s")
    raw.set("s", "w")
    p.multi()
    p.get("s")
    try:
        p.execute()
    except redis.WatchError:
        pass
    else:
        raise AssertionError("no WatchError")
assert sorted(raw.scan_iter("*")) == ["b", "b2", "c", "copy", "s"]
assert raw.type("c") == "MBbloomCF" and raw.dbsize() == 5 and raw.info("server")["redis_version"]
assert raw.config_get("bf-error-rate") == {"bf-error-rate": "0.01"} and raw.client_getname() == "test"
assert raw.memory_usage("b") > 1000 and raw.command_count() > 50 and raw.command()["bf.add"]["arity"] == 3
assert raw.lastsave() and raw.time() and raw.echo("hi") == "hi" and raw.delete("s") == 1
