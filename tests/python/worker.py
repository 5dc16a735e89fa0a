"""An agent that knows nothing but the page: it signs on, works, talks, and signs off when it is told to.

    worker.py PAGE DATABASE AGENT LEAD CLAIM TASKS_MAX

Takes tasks with the statement named CLAIM, at most TASKS_MAX of them, and tells LEAD about the first. A message of type
system.shutdown ends its day; then it prints, as one line of JSON, what it did.
"""

import json
import os
import socket
import sys
import time

from page import Door

LOOK_EVERY = 0.005


class Worker:
    def __init__(self, page, database, agent, lead, claim, tasks_max):
        self.door = Door(page, database)
        self.agent, self.lead = agent, lead
        self.claim_block, self.tasks_max = claim, int(tasks_max)
        self.claimed, self.heard = [], []

    def day(self):
        self.sign_on()
        self.door.run("heartbeat", agent=self.agent, status="idle")
        self.tell("hello", "custom", {"from": self.agent})
        while not self.read_messages():
            task = self.claim() if len(self.claimed) < self.tasks_max else None
            if task is None:
                time.sleep(LOOK_EVERY)
            else:
                self.work(*task)
        self.door.run("deregister", agent=self.agent)
        print(json.dumps({"claimed": self.claimed, "heard": self.heard}), flush=True)

    def sign_on(self):
        self.door.run(
            "register", agent=self.agent, name=self.agent, type="custom", skills='["python"]',
            minutes=60, tests=1, build=1, browser=0,
            machine=socket.gethostname(), hostname=socket.gethostname(), pid=os.getpid(),
        )

    def tell(self, name, kind, payload):
        self.door.run(
            "send", message=f"{self.agent}:{name}", type=kind, agent=self.agent, to=self.lead,
            payload=json.dumps(payload), ack_required=0, expires="+1 hour",
        )

    def read_messages(self):
        """Whether one of them ends the day."""
        messages = self.door.run("receive", agent=self.agent)
        if not messages:
            return False
        ids = [message["id"] for message in messages]
        self.door.run("delivered", agent=self.agent, messages=json.dumps(ids))
        for message in messages:
            self.heard.append(message["type"])
            if message["ack_required"]:
                self.door.run("acknowledge", agent=self.agent, message=message["id"])
        return any(message["type"] == "system.shutdown" for message in messages)

    def claim(self):
        """A task's id and the epoch of the claim, or None."""
        if self.claim_block == "claim":
            row = self.door.one("claim", agent=self.agent, exclude="[]")
            return row and (row["id"], row["epoch"])
        row = self.door.one(
            "claim_of_the_document", agentId=self.agent, agentSkills='[]["python"]', excludeIds=""
        )
        return row and (row["id"], row["epoch"] + 1)

    def work(self, task, epoch):
        self.claimed.append([task, epoch])
        mine = {"task": task, "agent": self.agent, "epoch": epoch}
        if len(self.claimed) == 1:
            self.tell("first", "task.claimed", {"taskId": task})
        self.must("progress", **mine, phase="implementing", percent=50)
        path = f"work/{task}.txt"
        self.must("acquire_lease", path=path, agent=self.agent, task=task, lasts="+10 minutes")
        self.must("complete", **mine, result=json.dumps({"summary": f"{task} by {self.agent}"}))

    def must(self, block, **values):
        if self.door.one(block, **values) is None:
            raise RuntimeError(f"{block} of {values} found nothing to change")


if __name__ == "__main__":
    Worker(*sys.argv[1:]).day()
