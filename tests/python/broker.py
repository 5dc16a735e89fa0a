"""The frames that clients of SquidRun use, with the WebSocket client that Python programs use."""
import json
import os
from contextlib import ExitStack

from websockets.sync.client import connect


open_sockets = ExitStack()


class Client:
    def __init__(self, role):
        self.socket = open_sockets.enter_context(connect(os.environ["BROKER_URL"]))
        self.frames = []
        self.expect(type="welcome")
        self.registered = self.ask("registered", type="register", role=role)

    def send(self, **frame):
        self.socket.send(json.dumps(frame))

    def expect(self, **members):
        def fits(frame):
            return all(frame.get(name) == value for name, value in members.items())

        while not any(fits(frame) for frame in self.frames):
            self.frames.append(json.loads(self.socket.recv(timeout=60)))
        return self.frames.pop(next(at for at, frame in enumerate(self.frames) if fits(frame)))

    def ask(self, answer, **frame):
        self.send(**frame)
        return self.expect(type=answer)


builder, architect = Client("devops"), Client("architect")
assert builder.registered == {"type": "registered", "paneId": "2", "role": "builder"}
health = architect.ask("health-check-result", type="health-check", target="2", requestId="h1")
assert health["status"] == "healthy", health

send = {"type": "send", "target": "builder", "content": "(ARCH #1): hello", "messageId": "py-1", "ackRequired": True}
ack = architect.ask("send-ack", **send)
assert ack["status"] == "delivered.websocket" and ack["ok"] and ack["accepted"], ack
message = builder.expect(type="message")
assert (message["content"], message["traceId"]) == ("(ARCH #1): hello", "py-1"), message
assert architect.ask("send-ack", **send) == ack

builder.send(type="receipt", traceId="py-1")
status = None
while status != "delivered.verified":
    check = architect.ask("delivery-check-result", type="delivery-check", requestId="d1", messageId="py-1")
    status = check["ack"]["status"]

cast = architect.ask("send-ack", type="broadcast", content="roll call", messageId="py-2", ackRequired=True)
assert cast["accepted"], cast
assert builder.expect(type="broadcast")["content"] == "roll call"
refused = architect.ask("send-ack", **{**send, "target": "nobody", "messageId": "py-3"})
assert refused["status"] == "invalid_target", refused
response = builder.ask("response", type="team-memory", requestId="r1")
assert response["result"]["status"] == "unsupported_action", response
architect.send(type="comms-event", eventType="comms.delivery.failed", payload={"fallbackUsed": True})

# Fragments make one frame, bytes are read as text, what is too large is refused; the connection goes on.
builder.socket.send(['{"type":"health-check",', '"target":"3","requestId":"h2"}'])
assert builder.expect(requestId="h2")["status"] == "no_route"
builder.socket.send(b'{"type":"health-check","target":"nobody","requestId":"h3"}')
assert builder.expect(requestId="h3")["status"] == "invalid_target"
builder.socket.send("x" * (256 * 1024 + 1))
assert builder.expect(type="error")["message"] == "Message too large"
for client in (builder, architect):
    client.socket.close()
print("all frames")
