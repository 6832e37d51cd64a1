/**
 * The folders of tests, by what they need and so what they cost. Each is a project of vitest;
 * docs/CONTRIBUTING.md has the same table.
 */

export interface Project {
  readonly name: string;
  /** What its tests need. */
  readonly needs: string;
  /** On two quiet cores, rounded up. */
  readonly seconds: number;
  /** Files at a time: more than cores where tests wait. */
  readonly workers: number;
}

export const PROJECTS: readonly Project[] = [
  { name: 'unit', needs: 'neither a socket nor another process', seconds: 60, workers: 4 },
  { name: 'server', needs: 'servers in this process, port 0', seconds: 120, workers: 4 },
  { name: 'sample', needs: 'one of each of what follows', seconds: 60, workers: 4 },
  { name: 'system', needs: 'processes, workers, several gateways', seconds: 300, workers: 4 },
  { name: 'crash', needs: 'crash points, kills, faults', seconds: 180, workers: 2 },
  {
    name: 'packages',
    needs: 'packed archives, examples, a package registry',
    seconds: 120,
    workers: 2,
  },
  { name: 'interop', needs: "other people's clients", seconds: 30, workers: 2 },
  { name: 'browser', needs: 'Chromium', seconds: 120, workers: 2 },
  { name: 'drill', needs: 'a deployment under load and faults', seconds: 260, workers: 1 },
];

/** What `npm test` runs. */
export const QUICK: readonly string[] = ['unit', 'server', 'sample'];
