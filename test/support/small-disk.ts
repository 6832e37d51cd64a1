import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { execFileSync } from './child-process.js';
import { requirement } from './requirements.js';

/** A file system in memory of `size` (`8m`), until the test has ended: one that can be filled. */
export function mountSmallDisk(size: string): string {
  // Not within a folder of this user alone: PostgreSQL runs as another one.
  const folder = mkdtempSync(join(tmpdir(), 'stevedore-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=755`, 'none', folder]);
  onTestFinished(() => {
    execFileSync('umount', ['-l', folder]);
    rmdirSync(folder);
  });
  return folder;
}

export const needsMount = requirement('the right to mount (root)', () => {
  if (process.getuid?.() !== 0) return false;
  try {
    execFileSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'none', '/mnt'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
});
