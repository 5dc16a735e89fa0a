"""Runs statements of the page one by one, as it is told: a line of JSON in, a line of JSON out.

    statements.py PAGE DATABASE
"""

import json
import sqlite3
import sys

from page import Door


def main(page, database):
    door = Door(page, database)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            rows = [dict(row) for row in door.run(asked["block"], **asked["values"])]
            answer = {"rows": rows}
        except sqlite3.Error as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
