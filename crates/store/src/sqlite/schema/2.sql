-- What the host keeps beside its sessions: a kind, a name of its own choosing, and bytes that only it reads.
CREATE TABLE host_records (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    at INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT;
CREATE INDEX host_records_by_age ON host_records (kind, at);
