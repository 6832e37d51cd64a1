import type { SqliteDatabase } from '@stevedore/disk/sqlite';
import { SCHEMA_VERSION } from './constants.js';

/** The tables of the records, by version; FORMAT.md says what is in them. */

const SCHEMA = `
  CREATE TABLE files (
    name TEXT PRIMARY KEY,
    place INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    moves INTEGER NOT NULL DEFAULT 0,
    moving INTEGER NOT NULL DEFAULT 0,
    metadata BLOB,
    bytes BLOB
  );
  CREATE INDEX files_by_size ON files (place, size);
  CREATE INDEX files_moving ON files (name) WHERE moving = 1;
`;
/** What version 2 has beside: data files on I/O servers. */
const SCHEMA_2 = `
  ALTER TABLE files ADD COLUMN handle BLOB;
  ALTER TABLE files ADD COLUMN stripe INTEGER;
  ALTER TABLE files ADD COLUMN servers BLOB;
  ALTER TABLE files ADD COLUMN checks BLOB;
  CREATE UNIQUE INDEX files_by_handle ON files (handle) WHERE handle IS NOT NULL;
  CREATE TABLE owner (id BLOB NOT NULL);
  INSERT INTO owner VALUES (randomblob(8));
  CREATE TABLE io_servers (id BLOB PRIMARY KEY, host TEXT NOT NULL, port INTEGER NOT NULL);
  CREATE TABLE deletions (
    handle BLOB NOT NULL,
    server BLOB NOT NULL,
    PRIMARY KEY (server, handle)
  ) WITHOUT ROWID;
`;
/** What version 3 has beside: bytes with other metadata servers. */
const SCHEMA_3 = `
  ALTER TABLE files ADD COLUMN guest TEXT;
  CREATE TABLE departures (guest TEXT PRIMARY KEY) WITHOUT ROWID;
`;

/** Brings tables of any version up to ours; an Error if they are of a later one. */
export function migrate(db: SqliteDatabase): void {
  const version = db.pragma('user_version', { simple: true }) as number;
  if (version > SCHEMA_VERSION) throw new Error(`its version ${version} is a later one`);
  if (version === SCHEMA_VERSION) return;
  db.transaction(() => {
    if (version < 1) db.exec(SCHEMA);
    if (version < 2) db.exec(SCHEMA_2);
    db.exec(SCHEMA_3);
    db.pragma(`user_version = ${SCHEMA_VERSION}`);
  })();
}
