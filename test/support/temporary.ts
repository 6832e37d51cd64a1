import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, onTestFinished } from 'vitest';

/** Registers cleanup for the end of a test or a suite. */
export type AtTheEnd = (work: () => unknown) => void;

export const ofTest: AtTheEnd = (work) => onTestFinished(async () => void (await work()));
/** For what the tests of a file or a suite share. */
export const ofSuite: AtTheEnd = (work) => afterAll(async () => void (await work()));

/** A folder that is gone after the test. */
export function temporaryFolder(atTheEnd = ofTest): string {
  const folder = mkdtempSync(join(tmpdir(), 'stevedore-'));
  atTheEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
