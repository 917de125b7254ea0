"""A followed node whose containers an NRI policy or the DRA CPU driver pins: what they hold, what a reading keeps."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.unit.toolkit.sources.kubelet.followed_node import DB, WEB, Node, back, claim, cpus, made_node
from tests.unit.toolkit.sources.made_node import write
from tests.unit.toolkit.sources.pinners import CDI_NAME, CLAIM, SECRET, cache, cached, grant, specification
from tests.unit.toolkit.sources.socket_server import field
from toolkit.model.claims import Isolation
from toolkit.model.layers import Layer
from toolkit.sources.kubelet.files.live import node_files
from toolkit.sources.places import Places


def unmanaged(node: Node) -> None:
    """Let the kubelet have policy ``none``."""
    (node.root / "var/lib/kubelet/cpu_manager_state").unlink()
    node.configure("")
    text = (node.root / "var/lib/kubelet/config.yaml").read_text()
    write(node.root, "var/lib/kubelet/config.yaml", text.replace("static", "none"))


def policy(node: Node, *, alone: bool = False, **sets: str) -> None:
    """Write the cache of an NRI policy. :param sets: CPUs of ``db`` and ``web``. :param alone: those of db its own."""
    ids = {"db": DB, "web": WEB}
    grants = {DB: grant(DB, sets["db"])} if alone else None
    found = cache({ids[name]: cached(said, shares=512) for name, said in sets.items()}, grants)
    write(node.root, "var/lib/nri-resource-policy/cache", found.decode())


def test_what_a_policy_pins_is_held_by_its_word() -> None:
    with made_node() as node:
        unmanaged(node)
        policy(node, alone=True, db="2-3", web="0-1")
        reading = node.read()
    assert cpus(reading) == {"db/main": "2-3", "web/app": "0-1"}
    db, web = claim(reading, "db/main"), claim(reading, "web/app")
    assert (db.isolation, web.isolation) == (Isolation.CONTAINER, Isolation.HOST)
    assert (db.shares, db.pinned_by) == (512, "NRI topology-aware")
    assert {str(view.cpus) for view in reading.layers if view.layer is Layer.PLUGIN} == {"2-3", "0-1"}


def test_a_set_that_changes_is_given_back_soon() -> None:
    """Nothing says when its cgroup follows: until a bound it may have both."""
    with made_node() as node:
        unmanaged(node)
        policy(node, db="2-3", web="0-1")
        node.read()
        policy(node, db="2-3", web="1")
        reading = node.read()
        assert (cpus(reading)["web/app"], back(reading)) == ("0-1", {"web/app": "0"})
        policy(node, db="2-3", web="1-3")
        reading = node.read()
    assert cpus(reading)["web/app"] in ("0-3", "1-3")


def test_a_narrowed_container_of_the_pool_owes_nothing() -> None:
    with made_node() as node:
        node.runs(WEB, "web", "app", "0-1", cgroup="1")
        policy(node, web="1")
        reading = node.read()
    assert (cpus(reading)["web/app"], back(reading)) == ("1", {})
    assert {view.layer for view in reading.layers if view.claim == "web/app"} == {Layer.PLUGIN}


def test_a_cache_that_goes_bad_is_said() -> None:
    with made_node() as node:
        unmanaged(node)
        write(node.root, "var/lib/nri-resource-policy/cache", "{")
        reading = node.read()
    assert "/var/lib/nri-resource-policy/cache: not JSON" in "; ".join(part.reason for part in reading.missing)
    assert cpus(reading)["web/app"] == "None"


def test_a_claim_of_the_dra_driver_is_read_of_the_environment() -> None:
    with made_node() as node:
        unmanaged(node)
        spec = {"process": {"env": [f"P={SECRET}", f"DRA_CPUSET_{CLAIM}=2-3"]}, "linux": {}}
        spec["linux"] = {"cgroupsPath": f"/kubepods/podu-db/{DB}"}
        own = field(1, DB) + field(3, 1)
        info = json.dumps({"pid": 1, "runtimeSpec": spec})
        node._said[DB] = field(1, own) + field(2, field(1, "info") + field(2, info))
        write(node.root, f"var/run/cdi/{CDI_NAME}", specification("2-3").decode())
        write(node.root, "var/run/cdi/nvidia.yaml", SECRET)
        db = claim(node.read(), "db/main")
        assert (str(db.cpus), db.isolation, db.pinned_by) == ("2-3", Isolation.CONTAINER, "the DRA CPU driver")
        files = node_files(Places(root=node.root, cri=f"unix://{node.root}/c.sock"))
    assert [name for name in files if name.startswith("cdi/")] == [f"cdi/{CDI_NAME}"]
    assert not any(SECRET.encode() in data for data in files.values())


def test_a_capture_keeps_what_pins_and_no_secret() -> None:
    """And ``claims --kubelet`` and ``claims --capture`` say the same of it."""
    with made_node() as node:
        unmanaged(node)
        policy(node, alone=True, db="2-3", web="0-1")
        files = node_files(Places(root=node.root, cri=f"unix://{node.root}/c.sock"))
        assert "nri/cache.json" in files
        assert not any(SECRET.encode() in data for data in files.values())
        pinproof = [sys.executable, "-m", "toolkit", "claims"]
        live = [*pinproof, "--kubelet", "--root", str(node.root), "--cri", f"unix://{node.root}/c.sock"]
        said = subprocess.run(live, capture_output=True, text=True, timeout=60, check=False)
        for name, data in files.items():
            write(node.root, f"capture/{name}", data.decode())
        kept = [*pinproof, "--capture", str(node.root / "capture")]
        again = subprocess.run(kept, capture_output=True, text=True, timeout=60, check=False)
    assert "pinnedBy: NRI topology-aware" in said.stdout
    assert said.stdout == again.stdout
