/**
 * The tables of a map; FORMAT.md describes them. Step n leads from version n to n + 1. Every
 * statement may run twice, and concurrently with the same statement of another gateway.
 */
export const STEPS: readonly (readonly string[])[] = [
  [
    `CREATE TABLE IF NOT EXISTS stevedore_gateway (
      origin INTEGER PRIMARY KEY,
      instance TEXT NOT NULL UNIQUE,
      url TEXT,
      place TEXT NOT NULL,
      seen_at BIGINT NOT NULL,
      staged_files BIGINT NOT NULL,
      staged_bytes BIGINT NOT NULL,
      holder INTEGER,
      adopter INTEGER,
      adopted_at BIGINT,
      adopt_trunks BIGINT NOT NULL,
      adopted_trunks BIGINT NOT NULL,
      adopt_trouble TEXT,
      adopt_lost TEXT)`,
    `CREATE TABLE IF NOT EXISTS stevedore_trunk (
      trunk BYTES PRIMARY KEY,
      file_id TEXT NOT NULL,
      whole BYTES,
      thin BOOLEAN NOT NULL DEFAULT FALSE)`,
    `CREATE TABLE IF NOT EXISTS stevedore_retired (
      trunk BYTES PRIMARY KEY,
      retired_at BIGINT NOT NULL)`,
    'CREATE INDEX IF NOT EXISTS stevedore_retired_time ON stevedore_retired (retired_at)',
    `CREATE TABLE IF NOT EXISTS stevedore_file (
      file_key BYTES PRIMARY KEY,
      trunk BYTES NOT NULL,
      position BIGINT NOT NULL,
      size BIGINT NOT NULL,
      crc32 BIGINT NOT NULL,
      about TEXT NOT NULL,
      expires_at BIGINT)`,
    `CREATE TABLE IF NOT EXISTS stevedore_removal (
      file_key BYTES PRIMARY KEY,
      origin INTEGER NOT NULL,
      trunk BYTES,
      removed_at BIGINT NOT NULL,
      settled BOOLEAN NOT NULL)`,
    `CREATE TABLE IF NOT EXISTS stevedore_claim (
      mark BYTES PRIMARY KEY,
      origin INTEGER NOT NULL,
      version BIGINT NOT NULL,
      expires_at BIGINT NOT NULL)`,
    'CREATE INDEX IF NOT EXISTS stevedore_claim_end ON stevedore_claim (expires_at)',
    `CREATE TABLE IF NOT EXISTS stevedore_usage (
      key_id TEXT NOT NULL,
      day INTEGER NOT NULL,
      bytes BIGINT NOT NULL,
      granted BIGINT NOT NULL,
      PRIMARY KEY (key_id, day))`,
    `CREATE TABLE IF NOT EXISTS stevedore_setting (
      kind TEXT NOT NULL,
      name TEXT NOT NULL,
      body TEXT,
      changed_at BIGINT NOT NULL,
      PRIMARY KEY (kind, name))`,
    'CREATE INDEX IF NOT EXISTS stevedore_setting_time ON stevedore_setting (changed_at)',
    'CREATE INDEX IF NOT EXISTS stevedore_removal_time ON stevedore_removal (removed_at, file_key)',
    `CREATE INDEX IF NOT EXISTS stevedore_removal_open ON stevedore_removal (origin)
      WHERE NOT settled`,
    `CREATE INDEX IF NOT EXISTS stevedore_removal_trunk ON stevedore_removal (trunk)
      WHERE trunk IS NOT NULL`,
    `CREATE INDEX IF NOT EXISTS stevedore_removal_none ON stevedore_removal (removed_at)
      WHERE trunk IS NULL AND settled`,
  ],
];

/** The version has its own table, so that it is read before any other is touched. */
export const VERSION_TABLE = `CREATE TABLE IF NOT EXISTS stevedore_map (
  only_one INTEGER PRIMARY KEY,
  version INTEGER NOT NULL,
  secret TEXT NOT NULL,
  pruned_at BIGINT NOT NULL DEFAULT 0,
  spread BOOLEAN NOT NULL)`;

export const MAX_ORIGIN = 0xffff;
