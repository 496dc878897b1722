"""The chain of an audit: whatever is done to it afterwards is found."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elmgrove.errors import BadFile
from elmgrove.federation.audit import AuditRecord, require_unbroken
from support.laws import law_examples

Chain = list[AuditRecord]
DETAILS = st.dictionaries(
    st.text(max_size=5),
    st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    max_size=3,
)


def written(*details: dict[str, Any], federation: str = "fans") -> Chain:
    """A chain with one record for each detail."""
    chain: Chain = []
    for number, detail in enumerate(details):
        last = chain[-1] if chain else None
        act = "published" if number else "made"
        chain.append(AuditRecord.after(last, federation, 1e9 + number / 7, "device a", act, detail))
    return chain


def again(chain: Chain) -> Chain:
    """The chain after an export and an import."""
    return [AuditRecord.from_fields(json.loads(json.dumps(one.fields))) for one in chain]


CHAINS = st.lists(DETAILS, min_size=2, max_size=8).map(lambda details: written(*details))


@settings(max_examples=law_examples(30))
@given(CHAINS)
def test_a_chain_is_whole_also_exported_and_without_what_was_too_old(chain: Chain) -> None:
    for begin in range(len(chain)):
        assert require_unbroken(again(chain[begin:])) == chain[-1]
    assert require_unbroken([]) is None


def changed(record: AuditRecord, data: st.DataObject) -> AuditRecord:
    """A record with another value in one field, also with a hash that fits its own content."""
    values: dict[str, Any] = {
        "federation": "vans",
        "number": record.number + 1,
        "at": record.at + 1e-3,
        "actor": "device b",
        "act": "left",
        "detail": record.detail | {"x": "another"},
        "hash": "f" * 64,
    }
    name = data.draw(st.sampled_from(sorted(values)))
    made = replace(record, **{name: values[name]})
    if name != "hash" and data.draw(st.booleans()):
        made = replace(made, hash=made.hashed_after("0" * 64))
    return made


@given(CHAINS, st.integers(0, 3), st.data())
def test_any_alteration_deletion_insertion_or_other_order_is_found(
    chain: Chain, gone: int, data: st.DataObject
) -> None:
    """But for the first records: they may have been deleted for their age."""
    chain = chain[gone:]
    assume(len(chain) > 2)
    broken, place = list(chain), data.draw(st.integers(1, len(chain) - 2))
    match data.draw(st.sampled_from(["alter", "delete", "insert", "swap", "repeat"])):
        case "alter":
            # The last one too: its hash covers it.
            place = data.draw(st.integers(1, len(chain) - 1))
            broken[place] = changed(chain[place], data)
            assume(broken[place] != chain[place])
        case "delete":
            del broken[place]
        case "insert":
            forged = AuditRecord.after(chain[place], "fans", 5.0, "device b", "left", {})
            broken.insert(place + 1, forged)
        case "swap":
            other = data.draw(st.integers(place + 1, len(chain) - 1))
            broken[place], broken[other] = broken[other], broken[place]
        case "repeat":
            broken.insert(place + 1, chain[place])
    with pytest.raises(BadFile, match=r"record|chain"):
        require_unbroken(broken)


def test_it_says_where_it_is_broken() -> None:
    chain = written({}, {"rows": 1}, {"rows": 2}, {"rows": 3})
    with pytest.raises(BadFile, match=r"after record 1 of 'fans' follows record 3 of"):
        require_unbroken([chain[0], *chain[2:]])
    altered = [*chain[:2], replace(chain[2], detail={"rows": 9}), chain[3]]
    with pytest.raises(BadFile, match="record 3 of 'fans', or the one before it, is not as"):
        require_unbroken(altered)
    with pytest.raises(BadFile, match="follows record 2 of 'the server'"):
        require_unbroken([chain[0], *written({}, {}, federation="")[1:]])


@pytest.mark.parametrize(
    "stated", [7, {}, {"number": "1"}, {"at": 1}, {"detail": []}, {"more": 1}, {"number": True}]
)
def test_what_is_no_record_is_refused(stated: Any) -> None:
    good = written({})[0].fields
    with pytest.raises(BadFile, match="record"):
        AuditRecord.from_fields(good | stated if isinstance(stated, dict) and stated else stated)
