"""The statements of docs/direct-sql.md by their names, and the file opened as that page says."""

import re
import sqlite3

FENCED = re.compile(r"<!-- sql: (\w+) -->\n```sql\n(.*?)```", re.DOTALL)


def statements(path):
    """Each named block as the list of its statements."""
    with open(path, encoding="utf-8") as page:
        return {name: split(block) for name, block in FENCED.findall(page.read())}


def split(block):
    whole, rest = [], ""
    for line in block.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            whole.append(rest.strip())
            rest = ""
    if rest.strip():
        raise ValueError("a statement has no end: " + rest)
    return whole


class Door:
    """A connection that runs the page's statements."""

    def __init__(self, page, path):
        self.statements = statements(page)
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.row_factory = sqlite3.Row
        self.db.execute("PRAGMA busy_timeout = 5000")
        self.db.execute("PRAGMA wal_autocheckpoint = 0")

    def run(self, block, /, **values):
        """Runs a block; answers the rows that its statements returned."""
        rows = []
        try:
            for statement in self.statements[block]:
                rows += self.db.execute(statement, values).fetchall()
        except sqlite3.Error:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise
        return rows

    def one(self, block, /, **values):
        """The only row of a block, or None."""
        rows = self.run(block, **values)
        if len(rows) > 1:
            raise ValueError(f"{block} returned {len(rows)} rows")
        return rows[0] if rows else None
