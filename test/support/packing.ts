import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { execFileSync } from './child-process.js';
import { ROOT } from './paths.js';

/** Packs the packages once, before the tests of a project that looks at them. */

declare module 'vitest' {
  interface ProvidedContext {
    /** Paths of the archives by the name of their package. */
    archives: Readonly<Record<string, string>>;
  }
}

export default function pack(project: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'stevedore-'));
  execFileSync(process.execPath, [join(ROOT, '.scripts/pack.mjs'), folder]);
  const archives = readdirSync(folder).map((file) => {
    const name = file.replace(/^stevedore-(.+?)-\d.*\.tgz$/, '@stevedore/$1');
    return [name, join(folder, file)] as const;
  });
  project.provide('archives', Object.fromEntries(archives));
  return () => rmSync(folder, { recursive: true, force: true });
}
