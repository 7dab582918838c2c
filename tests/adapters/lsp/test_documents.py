"""What a server is told of documents: played against a server that keeps the texts itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adapters.lsp.documents import Documents, Note

URIS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(["", "x", "y"])
STEPS = st.one_of(
    st.tuples(st.just("show"), URIS, TEXTS),
    st.tuples(st.sampled_from(["again", "close", "deleted", "restart"]), URIS, TEXTS),
)


class Strict:
    """A server that refuses what real ones are confused by."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}

    def told(self, notes: list[Note]) -> None:
        for method, params in notes:
            about = params.get("textDocument", {})
            uri, version = about.get("uri"), about.get("version")
            match method:
                case "textDocument/didOpen":
                    assert uri not in self.texts, "opened twice"
                    assert version > self.versions.get(uri, 0), "a version went back"
                    self.texts[uri], self.versions[uri] = about["text"], version
                case "textDocument/didChange":
                    assert version > self.versions[uri], "a version went back"
                    [change] = params["contentChanges"]
                    assert change["text"] != self.texts[uri], "a change that is none"
                    self.texts[uri], self.versions[uri] = change["text"], version
                case "textDocument/didClose":
                    del self.texts[uri]
                case _:
                    assert method == "workspace/didChangeWatchedFiles"


@given(st.lists(STEPS, max_size=40))
def test_the_server_always_has_the_text_that_was_shown_last(steps: list[tuple[str, str, str]]) -> None:
    documents, server = Documents(lambda uri: "text", limit=2), Strict()
    for what, uri, text in steps:
        match what:
            case "show":
                server.told(documents.show(uri, text))
                assert server.texts[uri] == text
            case "again" if documents.get(uri):
                server.told(documents.again(uri))
            case "close":
                server.told(documents.close(uri))
            case "deleted":
                server.told(documents.changed_on_disk([(uri, 3)]))
                assert documents.get(uri) is None
            case "restart":
                server = Strict()
                server.told(documents.restart(lambda uri: None if uri == "a" else "new"))
                assert "a" not in server.texts
                assert set(server.texts.values()) <= {"new"}
            case _:
                pass
        assert server.texts == {uri: document.text for uri in documents if (document := documents.get(uri))}
        assert len(server.texts) <= 2


def test_what_is_held_stays_open_and_the_longest_unasked_goes() -> None:
    documents, server = Documents(lambda uri: "text", limit=2), Strict()
    with documents.held("a"):
        for uri in ("a", "b", "c"):
            server.told(documents.show(uri, "x"))
        assert set(server.texts) == {"a", "c"}
    server.told(documents.show("d", "x"))
    assert set(server.texts) == {"c", "d"}


def test_only_changes_make_what_was_said_of_other_files_old() -> None:
    documents = Documents(lambda uri: "text", limit=2)
    documents.show("a", "x")
    documents.show("b", "x")
    documents.close("b")
    document = documents.get("a")
    assert document
    assert document.epoch == documents.epoch
    documents.changed_on_disk([("c", 2)])
    assert document.epoch < documents.epoch
