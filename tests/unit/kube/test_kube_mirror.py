"""A mirror never goes back in time, forgets what is gone, and tells of every change once."""

from karpenter.api.meta import ObjectMeta
from karpenter.api.nodes import Node, NodeSpec
from karpenter.kube.mirror import Mirror


def node(name: str = "a", *, uid: str = "1", version: int = 1, provider_id: str = "") -> Node:
    metadata = ObjectMeta(name=name, uid=uid, resource_version=str(version))
    return Node(metadata=metadata, spec=NodeSpec(provider_id=provider_id))


def mirror(*nodes: Node) -> Mirror[Node]:
    made = Mirror(Node)
    for one in nodes:
        made.put(one)
    return made


def test_an_older_version_is_passed_over() -> None:
    found = mirror(node(version=7))

    assert not found.put(node(version=6))
    assert node(version=7) == found.get("a")


def test_the_same_version_is_no_news() -> None:
    assert not mirror(node(version=7)).put(node(version=7))


def test_a_new_object_takes_over_a_name_but_an_older_one_does_not() -> None:
    found = mirror(node(uid="2", version=20))

    assert not found.put(node(uid="1", version=10))
    assert found.put(node(uid="3", version=21))
    assert node(uid="3", version=21) == found.get("a")


def test_what_was_deleted_never_comes_back() -> None:
    found = mirror(node(version=7))

    found.drop(node(version=8))

    assert not found.put(node(version=9))
    assert found.get("a") is None


def test_the_removal_of_an_object_leaves_its_successor_alone() -> None:
    found = mirror(node(uid="2", version=9))

    assert not found.drop(node(uid="1", version=8))
    assert found.get("a") is not None


def test_a_list_removes_what_it_lacks_and_keeps_what_is_newer_than_itself() -> None:
    found = mirror(node("old", uid="1", version=3), node("written since", uid="2", version=12))

    found.replace_all([node("listed", uid="3", version=5)], "10")

    assert ["listed", "written since"] == sorted(one.metadata.name for one in found.list())


def test_what_one_list_lacked_may_be_in_the_next() -> None:
    found = mirror(node(version=5))

    found.replace_all([], "9")
    found.replace_all([node(version=5)], "12")

    assert 1 == len(found)


def test_a_late_answer_does_not_bring_back_what_a_list_lacked() -> None:
    found = mirror(node(version=3))
    found.replace_all([], "10")

    assert not found.absorb(node(version=4))
    assert not found.absorb(node(version=10))
    assert found.get("a") is None


def test_an_answer_about_what_was_written_since_the_list_is_taken() -> None:
    found = mirror()
    assert found.absorb(node("before any list", version=1))
    found.replace_all([node("listed", uid="2", version=5)], "10")

    assert found.absorb(node("listed", uid="2", version=8))
    assert found.absorb(node("created", uid="3", version=11))
    assert ["created", "listed"] == sorted(one.metadata.name for one in found.list())


def test_an_answer_whose_version_is_no_number_is_taken() -> None:
    found = mirror()
    found.replace_all([], "v10")

    assert found.absorb(node(version=4))


def test_an_index_follows_every_change() -> None:
    found = mirror()
    found.add_index("id", lambda one: (one.spec.provider_id,))

    found.put(node(version=1, provider_id="x"))
    found.put(node(version=2, provider_id="y"))

    assert [] == found.by_index("id", "x")
    assert 1 == len(found.by_index("id", "y"))


def test_handlers_hear_of_what_is_there_and_of_each_change_until_they_leave() -> None:
    found = mirror(node(version=1))
    heard: list[tuple[int, int]] = []

    def listen(old: Node | None, new: Node | None) -> None:
        heard.append((_version(old), _version(new)))

    leave = found.on_change(listen)
    found.put(node(version=2))
    found.drop(node(version=3))
    leave()
    found.put(node(uid="2", version=4))

    assert [(0, 1), (1, 2), (2, 0)] == heard


def _version(one: Node | None) -> int:
    return int(one.metadata.resource_version) if one is not None else 0


def test_who_only_looks_is_told_of_changes_alone_and_stays_when_controllers_go() -> None:
    found = mirror(node(version=1))
    seen: list[str] = []
    acted: list[str] = []
    end = found.watch(lambda _, new: seen.append(new.metadata.name if new else ""))
    found.on_change(lambda _, new: acted.append(new.metadata.name if new else ""))

    assert (1, [], ["a"]) == (found.followers, seen, acted)

    found.forget_followers(0)
    found.put(node("b", uid="2"))

    assert (0, ["b"], ["a"]) == (found.followers, seen, acted)

    end()
    found.drop(node("b", uid="2"))

    assert ["b"] == seen
