/** The tables of the records; FORMAT.md says what is in them. */

const TABLES = `
  CREATE TABLE files (
    name TEXT PRIMARY KEY,
    place INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    moves INTEGER NOT NULL DEFAULT 0,
    moving INTEGER NOT NULL DEFAULT 0,
    heat REAL NOT NULL DEFAULT 0,
    away TEXT,
    metadata BLOB,
    bytes BLOB
  );
  CREATE INDEX files_by_heat ON files (place, heat);
  CREATE INDEX files_moving ON files (name) WHERE moving = 1;
  CREATE UNIQUE INDEX files_away ON files (away) WHERE away IS NOT NULL;

  CREATE TABLE owner (id BLOB NOT NULL);
  INSERT INTO owner VALUES (randomblob(8));
  CREATE TABLE copies (
    id INTEGER PRIMARY KEY,
    target TEXT NOT NULL,
    size INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    since INTEGER NOT NULL
  );
  CREATE TABLE departures (away TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;

  CREATE TABLE slices (
    trunk TEXT NOT NULL,
    position INTEGER NOT NULL,
    size INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    heat REAL NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (trunk, position)
  );
  CREATE INDEX slices_by_heat ON slices (heat);
`;

export const RECORDS_SCHEMA: readonly string[] = [TABLES];
