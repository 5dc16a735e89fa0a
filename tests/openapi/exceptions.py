"""What Schemathesis may report and is right as it is, each with the reason."""

import json
from urllib.parse import urljoin

import requests
import schemathesis

# Requests that fit the schema and are refused: the field to blame, words of the message, and why the document cannot say it.
REFUSED = [
    ("", "differs from the one in the path", "a schema cannot compare a body with a path"),
    ("", "not the decimal", "for a schema 2.0 is a whole number; for the hub it is not"),
    ("", "is a reserved id", "look-alikes of reserved ids are found by rules that no pattern has"),
    ("", "integer of 64 bits", "a text has a length and no range"),
    ("", "no such stream", "which streams are open depends on the hub"),
    ("", "outside the project", "where the project is depends on the hub"),
    ("agentId", "is required", "GET /messages takes either `agentId` or `all`"),
    ("commit", "", "which gate is open depends on the ledger"),
    ("step", "", "as for `commit`"),
    ("", "as semver has it", "semver is a grammar"),
    ("constraints.origins", "is neither an address such as", "which texts are networks, is nothing that one pattern tells"),
    ("sessionId", "name either", "a session or an agent, and not both"),
    ("", "to do; ask it there", "which node this is depends on the hub"),
    ("", "there is no role", "words that are taken in any case are more than an enumeration has"),
    ("", "there are two phases", "a schema compares whole items, not their names"),
    ("directory", "", "what lies where depends on the hub's machine"),
    ("run", "", "a schema cannot compare two members"),
    ("role", "is signed by", "which role signs which step is a rule of the gate"),
    ("dependencies", "", "which tasks there are depends on the ledger"),
    ("filePath", "", "whether a glob is well-formed is nothing that a pattern tells"),
    ("under", "", "as for `filePath`"),
    ("qualityMetrics.testsPassed", "at most testsRan", "a schema cannot compare two members"),
    ("since", "id of a message that is kept", "which messages there are depends on the ledger"),
    ("until", "", "what is in the past depends on the time"),
    ("id", "ticket", "which node calls is nothing that a schema tells"),
    ("expiresAt", "", "what is in the past depends on the time"),
]


def is_known(refused, case):
    field, message = refused.get("field") or "", refused.get("message") or ""
    # A wrong state of the task, a full list: both depend on the ledger.
    if refused.get("reason"):
        return True
    # The hub counts bytes, a schema counts characters.
    if "bytes" in message and not f"{case.query}{case.path_parameters}{case.body}".isascii():
        return True
    # Which payload an event has depends on its kind.
    if field.startswith("payload"):
        return True
    return any(blamed in ("", field) and words in message for blamed, words, _ in REFUSED)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    name = type(failure).__name__
    if name == "RejectedPositiveData":
        return not is_known(response.json(), case)
    # A body that is too large is refused as such, whatever else is wrong with it.
    if name == "AcceptedNegativeData" and response.status_code == 413:
        return False
    # Each operation of a batch may be signed by itself, and is refused by itself.
    return name != "IgnoredAuth" or case.path != "/api/v1/batch"


@schemathesis.hook
def before_call(context, case, kwargs):
    # A call that waits would hold up the test.
    for part in (case.query, case.body):
        if isinstance(part, dict) and str(part.get("wait")).isdigit() and 0 < int(part["wait"]) <= 60:
            part["wait"] = 0


@schemathesis.hook
def after_call(context, case, response):
    # Streams of SQL that nobody closes are soon as many as there may be.
    if case.path.startswith("/v") and response.status_code == 200 and b'"baton":"' in response.content:
        baton = json.loads(response.content.split(b"\n")[0])["baton"]
        close = {"baton": baton, "requests": [{"type": "close"}]}
        url = urljoin(response.request.url, "/v3/pipeline")
        requests.post(url, json=close, headers={"Authorization": response.request.headers["Authorization"]})
