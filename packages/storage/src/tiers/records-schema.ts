/**
 * The tables of the records; FORMAT.md says what is in them. A released schema is changed by
 * a further step alone.
 */

const TABLES = `
  CREATE TABLE files (
    name TEXT PRIMARY KEY,
    place INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    moves INTEGER NOT NULL DEFAULT 0,
    moving INTEGER NOT NULL DEFAULT 0,
    metadata BLOB,
    bytes BLOB,
    handle BLOB,
    stripe INTEGER,
    servers BLOB,
    checks BLOB,
    guest TEXT
  );
  CREATE INDEX files_by_size ON files (place, size);
  CREATE INDEX files_moving ON files (name) WHERE moving = 1;
  CREATE UNIQUE INDEX files_by_handle ON files (handle) WHERE handle IS NOT NULL;

  CREATE TABLE owner (id BLOB NOT NULL);
  INSERT INTO owner VALUES (randomblob(8));
  CREATE TABLE io_servers (id BLOB PRIMARY KEY, host TEXT NOT NULL, port INTEGER NOT NULL);
  CREATE TABLE deletions (
    handle BLOB NOT NULL,
    server BLOB NOT NULL,
    PRIMARY KEY (server, handle)
  ) WITHOUT ROWID;
  CREATE TABLE departures (guest TEXT PRIMARY KEY) WITHOUT ROWID;
`;

export const RECORDS_SCHEMA: readonly string[] = [TABLES];
