import { SETTINGS, type Setting, THREADS } from '../data-node/plan.js';
import type { Claim, Figure, Paper } from './claim.js';

/** Optimizations on the data node of a distributed storage system for small files. */

const MODEL = 'data-node/model';
const MANY = [16, 32, 64, 100, 200] as const;
const ALL = [1, 2, 4, 8, ...MANY] as const;
const SIZES = [16, 32, 64, 128, 256] as const;
const NODES = [1, 2, 4] as const;
const percent = (gain: number) =>
  `${gain < 1 ? '−' : '+'} ${Math.abs(100 * (gain - 1)).toFixed(0)}`;

function gains(
  what: string,
  paper: string,
  series: string,
  setting: Setting,
  at: readonly number[],
  least: number,
  why?: string,
): Claim {
  const all = (figure: Figure) => figure.all(at.map((each) => `${series}.${setting}.${each}.gain`));
  return {
    ...{ what, paper },
    measured: {
      run: MODEL,
      ours: (figure) =>
        `${percent(Math.min(...all(figure)))} to ${percent(Math.max(...all(figure)))} %`,
      holds: (figure) => Math.min(...all(figure)) >= least,
      isModel: true,
      ...(why === undefined ? {} : { why }),
    },
  };
}

const FEW_DISKS =
  'one modelled disk answers one request at a time, and what a setting saves of it is the whole gain; the paper measured 20 machines';

export const dataNode: Paper = {
  title: 'Data node',
  claims: [
    {
      what: 'Fig. 1: a cache of blocks wastes room on files that nobody asks for',
      paper: 'no figure',
      measured: {
        run: MODEL,
        ours: (figure) =>
          `${figure(`read.neither.${THREADS}.disk-kB`).toFixed(0)} kB read of the disk for a request; by files ${figure(`read.cache.${THREADS}.disk-kB`).toFixed(0)}; hit ratios ${figure(`read.neither.${THREADS}.hits`).toFixed(2)} and ${figure(`read.cache.${THREADS}.hits`).toFixed(2)}`,
        holds: (figure) =>
          figure(`read.cache.${THREADS}.hits`) > figure(`read.neither.${THREADS}.hits`),
        ...{ isModel: true, why: FEW_DISKS },
      },
    },
    {
      what: 'Figs. 2 and 4: a cache in units of files, a list by last request',
      paper: '',
      ours: '`--cache-policy lru`; by default, admission stands before it',
      test: 'unit/cache/admission.test.ts',
    },
    {
      what: 'Algorithm: a Bloom filter of three hashes before the list; the tail leaves',
      paper: 'avoids searches of the list',
      ours: '`--cache-filter`; it counts, so that files can leave it',
      test: 'unit/cache/parts.test.ts',
    },
    {
      what: 'A search of the cache takes no time beside a read of the disk',
      paper: '',
      measured: {
        run: 'data-node/look-ups',
        ours: (figure) =>
          `${figure('look-up.filter.miss').toFixed(2)} µs for a miss with the filter, ${figure('look-up.map.miss').toFixed(2)} without: a map needs none`,
        // A read of the disk takes milliseconds.
        holds: (figure) => figure('look-up.filter.hit') <= 10,
        why: 'it takes a part of the time of a read',
      },
    },
    {
      what: 'Fig. 3: TFS, blocks of 64 MB with the block in the name of a file',
      paper: '',
      ours: 'trunks of 64 MiB, and their name in that of a slice',
      test: 'server/storage/slices.test.ts',
    },
    {
      what: 'Fig. 5: files of a group wait in a buffer of 4 MB and are written side by side',
      paper: '',
      ours: "`mode: 'direct'` with a group, or the Merge Task",
      test: 'server/client/direct.test.ts',
    },
    gains('Fig. 6: reads, cache', '+ 17 to 35 %', 'read', 'cache', MANY, 1.17, FEW_DISKS),
    gains('Fig. 6: reads, co-location', '+ 10 to 20 %', 'read', 'placement', MANY, 1.1, FEW_DISKS),
    gains('Fig. 6: reads, both', '+ 20 to 49 %', 'read', 'both', MANY, 1.2, FEW_DISKS),
    gains(
      'The same, ours: admission, groups read at once',
      '',
      'read',
      'ours',
      MANY,
      1.2,
      FEW_DISKS,
    ),
    gains(
      'Fig. 8: 20 reads for a write, cache',
      'as reads',
      'mixed',
      'cache',
      MANY,
      1.17,
      FEW_DISKS,
    ),
    gains('Fig. 8, co-location', 'as reads', 'mixed', 'placement', MANY, 1.1, FEW_DISKS),
    gains('Fig. 8, both', 'as reads', 'mixed', 'both', MANY, 1.2, FEW_DISKS),
    {
      what: 'Fig. 7: the gain grows up to 64 MB and slower beyond, because the list is searched',
      paper: 'a chart',
      measured: {
        run: MODEL,
        ours: (figure) =>
          [16, 64, 128]
            .map((at) => `${at} MiB ${figure(`size.cache.${at}.requests`).toFixed(0)}/s`)
            .join(', '),
        holds: (figure) => {
          const at = (mebibytes: number) => figure(`size.cache.${mebibytes}.requests`);
          return at(128) / at(64) < Math.sqrt(at(64) / at(16));
        },
        isModel: true,
        why: 'a look-up takes the same time at any size, so nothing bends at 64 MB',
      },
    },
    gains('Fig. 9: 1 to 4 nodes, cache', '+ 35 %', 'nodes', 'cache', NODES, 1.17, FEW_DISKS),
    gains('Fig. 9, co-location', '+ 20 %', 'nodes', 'placement', NODES, 1.1, FEW_DISKS),
    gains('Fig. 9, both', '+ 50 %', 'nodes', 'both', NODES, 1.2, FEW_DISKS),
    {
      what: 'The same on a real disk: reads of this machine, 16 threads, ours',
      paper: '+ 20 to 49 %',
      measured: {
        run: 'data-node/measured',
        ours: (figure) => `${percent(figure(`measured.ours.${THREADS}.gain`))} %`,
        holds: (figure) => figure(`measured.ours.${THREADS}.gain`) >= 1.2,
        why: 'this disk has no head that moves; what a request costs is mostly the time of the processor',
      },
    },
    {
      what: 'Figs. 7 and 9: the data of a teaching system',
      paper: '',
      skipped: 'the data was not published; files are drawn by Zipf’s law',
    },
  ],
  charts: [
    {
      ...{ name: 'data-node-reads', benchmark: 'data-node' },
      ...{ title: 'Figure 6: gain over neither, reads, modelled disks' },
      ...{ xTitle: 'threads', yTitle: 'times neither', labels: ALL.map(String) },
      series: [
        ...(['cache', 'placement', 'both', 'ours'] as const).map((setting) => ({
          name: SETTINGS[setting].title,
          values: ALL.map((at) => `read.${setting}.${at}.gain`),
        })),
        { name: 'both, the paper, at least', values: ALL.map(() => 1.2) },
        { name: 'both, the paper, at most', values: ALL.map(() => 1.49) },
      ],
    },
    {
      ...{ name: 'data-node-sizes', benchmark: 'data-node' },
      ...{ title: 'Figure 7: reads over the size of the memory, modelled disk' },
      ...{ xTitle: 'MiB', yTitle: 'requests/s', labels: SIZES.map(String) },
      series: (['neither', 'cache', 'ours'] as const).map((setting) => ({
        name: SETTINGS[setting].title,
        values: SIZES.map((at) => `size.${setting}.${at}.requests`),
      })),
    },
  ],
};
