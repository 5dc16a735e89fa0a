"""An agent of the mixed swarm that has nothing but Python's sqlite3 and the statements it is given."""

import json
import sqlite3
import sys
import time

told = json.load(sys.stdin)
db = sqlite3.connect(told["database"], isolation_level=None, timeout=30)
db.execute("PRAGMA wal_autocheckpoint = 0")


def run(block, given):
    return db.execute(told[block], given).fetchall()


def say(*words):
    print(json.dumps(words), flush=True)


run("register", told["registration"])
agent = told["registration"]["agent"]
while True:
    claimed = run("claim", {"agent": agent, "exclude": "[]"})
    if not claimed:
        if not db.execute("SELECT 1 FROM tasks WHERE status <> 'completed' LIMIT 1").fetchall():
            break
        time.sleep(0.005)
        continue
    task, epoch = claimed[0][0], claimed[0][-1]
    say("handed", task, epoch)
    report = {"agent": agent, "task": task, "epoch": epoch, "result": '{"summary":"done"}'}
    done = run("complete", report)
    say("completed" if done else "lost", task, epoch)
