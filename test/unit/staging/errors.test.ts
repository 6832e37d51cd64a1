import { constants } from 'node:os';
import { isStoreError, storeErrorOf } from '@stevedore/staging/errors';
import { describe, expect, it } from 'vitest';

/** What the errors of the system and of SQLite mean for a store. */

const failure = (code: string) => Object.assign(new Error(`${code}: it failed`), { code });

function codeOf(code: string): string | undefined {
  const error = storeErrorOf(failure(code));
  return isStoreError(error) ? error.code : undefined;
}

describe('an error of the system', () => {
  it('is a StoreError that can be retried and names its cause, whatever it is', () => {
    const own = Object.keys(constants.errno).filter((code) => codeOf(code) === undefined);
    // These come of mistakes of the program alone.
    expect(own.sort()).toEqual(['EBADF', 'EFAULT']);
    const cause = failure('ENOSPC');
    expect(storeErrorOf(cause)).toMatchObject({ retryable: true, cause });
    expect((storeErrorOf(cause) as Error).message).toContain('ENOSPC: it failed');
  });

  it.each([
    ['ENOSPC', 'disk_full'],
    ['EDQUOT', 'disk_full'],
    ['EMFILE', 'overloaded'],
    ['ENFILE', 'overloaded'],
    ['ENOMEM', 'overloaded'],
    ['EIO', 'disk_failed'],
    ['EROFS', 'disk_failed'],
    ['EACCES', 'disk_failed'],
    ['ETIMEDOUT', 'disk_failed'],
    ['ECONNREFUSED', 'storage_unavailable'],
    ['EAI_AGAIN', 'storage_unavailable'],
    ['SQLITE_BUSY', 'filemap_locked'],
    ['SQLITE_BUSY_SNAPSHOT', 'filemap_locked'],
    ['SQLITE_LOCKED_SHAREDCACHE', 'filemap_locked'],
    ['SQLITE_FULL', 'disk_full'],
    ['SQLITE_IOERR_WRITE', 'disk_failed'],
    ['SQLITE_CANTOPEN', 'disk_failed'],
    ['SQLITE_READONLY_DBMOVED', 'disk_failed'],
    ['SQLITE_NOMEM', 'overloaded'],
  ])('%s is %s', (system, code) => {
    expect(codeOf(system)).toBe(code);
  });

  it('is one too where Node has no name for it', () => {
    expect(codeOf('Unknown system error -117')).toBe('disk_failed');
  });

  it.each([
    'no_space',
    'ERR_INVALID_ARG_TYPE',
    'SQLITE_ERROR',
    'SQLITE_CONSTRAINT_UNIQUE',
    'SQLITE_MISUSE',
  ])('%s is none', (code) => expect(codeOf(code)).toBeUndefined());
});
