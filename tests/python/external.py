"""An external agent that knows nothing but docs/runtime.md: the whole cycle, then one line of JSON.

    external.py HUB AGENT INVITE TASK
"""

import base64
import hashlib
import json
import sys
import time
import urllib.error
import urllib.request
import uuid

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


class Agent:
    def __init__(self, hub, name):
        self.hub, self.name = hub, name
        self.key = Ed25519PrivateKey.generate()
        public = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(public)}

    def proof(self, url, token=None):
        head = {"typ": "dpop+jwt", "alg": "EdDSA", "jwk": self.jwk}
        said = {"jti": str(uuid.uuid4()), "htm": "POST", "htu": url, "iat": int(time.time())}
        if token:
            said["ath"] = b64(hashlib.sha256(token.encode()).digest())
        text = b64(compact(head)) + "." + b64(compact(said))
        return text + "." + b64(self.key.sign(text.encode()))

    def post(self, path, body, token=None, proof=None):
        url = self.hub + path
        headers = {"content-type": "application/json", "dpop": proof or self.proof(url, token)}
        if token:
            headers["authorization"] = "DPoP " + token
        request = urllib.request.Request(url, compact(body), headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)

    def exchange(self, invite):
        nonce = uuid.uuid4().hex
        signed = f"ansible-agent-exchange|{invite}|{self.name}|{nonce}"
        return self.post("/ansible/agent/auth/exchange", {
            "inviteToken": invite, "agentId": self.name, "nonce": nonce,
            "clientPubKey": self.jwk, "clientProof": self.key.sign(signed.encode()).hex(),
        })

    def refresh(self, token):
        body = {"refreshToken": token, "nonce": uuid.uuid4().hex}
        return self.post("/ansible/agent/auth/refresh", body)

    def invoke(self, token, operation, args, context=None, proof=None):
        body = {"operation": operation, "args": args, "nonce": uuid.uuid4().hex}
        if context:
            body["contextId"] = context
        return self.post("/ansible/agent/invoke", body, token, proof)


def main(hub, name, invite, task):
    agent, thief = Agent(hub, name), Agent(hub, name)
    seen = {}

    def note(step, answer):
        seen[step] = [answer[0], answer[1].get("error")]
        return answer[1]

    first = note("exchange", agent.exchange(invite))
    note("exchange again", agent.exchange(invite))
    tokens = note("refresh", agent.refresh(first["refreshToken"]))
    access = tokens["accessToken"]
    note("stolen", thief.invoke(access, "ansible_claim_task", {"taskId": task}))
    proof = agent.proof(hub + "/ansible/agent/invoke", access)
    note("claim", agent.invoke(access, "ansible_claim_task", {"taskId": task}, proof=proof))
    note("replayed", agent.invoke(access, "ansible_claim_task", {"taskId": task}, proof=proof))
    context = note("context", agent.post("/ansible/agent/context-token", {
        "contextId": task, "scopes": ["ansible.task.update"], "ttlSeconds": 60}, access))
    narrow = context["contextToken"]
    note("update", agent.invoke(narrow, "ansible_update_task", {"taskId": task, "progress": 50}, task))
    note("beyond", agent.invoke(narrow, "ansible_complete_task", {"taskId": task, "resultSummary": "x"}, task))
    note("complete", agent.invoke(access, "ansible_complete_task", {"taskId": task, "resultSummary": "done in Python"}))
    note("denied", agent.invoke(access, "ansible_send_message", {"toAgents": ["all"], "body": "hi"}))
    note("refresh again", agent.refresh(first["refreshToken"]))
    note("after", agent.invoke(access, "ansible_find_task", {"taskId": task}))
    print(json.dumps(seen))


main(*sys.argv[1:])
