import { CONCURRENCIES, FETCH_CONCURRENCIES, PAPER } from '../client-merging/plan.js';
import type { Claim, Figure, Paper } from './claim.js';

/** Chen and Zhang, Exploiting FastDFS Client-based Small File Merging. */

const UPLOADS = 'client-merging/upload-small';
const WIRED = ['1', '2', '5', '20', '100'] as const;
const ROOM = ['1', '2', '5'] as const;
const times = (value: number) => `${value.toFixed(2)} x`;
const range = (values: readonly number[]) =>
  `${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)} x`;
const ofAll = (figure: Figure, at: readonly (number | string)[], id: (c: string) => string) =>
  figure.all(at.map((c) => id(String(c))));
const stored = (series: string, beside: string) => (c: string) =>
  `write.${series}.c${c}.fastdfs.vs-${beside}`;
const fetched = (series: string, beside: string) => (c: string) =>
  `fetch.${series}.c${c}.fastdfs.nothing.vs-${beside}`;

const local = (c: string) => `fetch.warm.c${c}.ours.default.vs-direct`;

const LOOPBACK =
  'client and storage share two cores, no wire is between them, and FastDFS answers from the page cache; our client syncs each file first, reads it again and sends it';

function over(
  what: string,
  paper: string,
  run: string,
  at: readonly (number | string)[],
  id: (c: string) => string,
  least: number,
  why: string,
): Claim {
  return {
    ...{ what, paper },
    measured: {
      run: `client-merging/${run}`,
      ours: (figure) => range(ofAll(figure, at, id)),
      holds: (figure) => Math.min(...ofAll(figure, at, id)) >= least,
      ...{ why, isModel: run.endsWith('1g') || run.endsWith('100m') },
    },
  };
}

export const clientMerging: Paper = {
  title: 'Client merging',
  claims: [
    {
      what: 'Fig. 1: the web server is the client and merges',
      paper: 'no trunk server, no space allocated beforehand',
      ours: '`open()` in the app, or a gateway',
      test: 'server/client/store.test.ts',
    },
    {
      what: 'Fig. 2: Files Container, FileMap, acknowledged before the merge',
      paper: 'FileMap and merge order in memory',
      ours: 'both durable before the acknowledgement',
      test: 'unit/staging/lifecycle.test.ts',
    },
    {
      what: 'Fig. 3: read here while there is no FileID, else from FastDFS',
      paper: '',
      ours: 'the same; read copies stay here for a while',
      test: 'server/client/store.test.ts',
    },
    {
      what: 'Merge Task: its interval follows the flow of files',
      paper: 'enough samples for the best merge',
      ours: '1.25 trunks waiting, or the oldest file waiting for `mergeMaxAge`',
      test: 'unit/staging/merge/schedule.test.ts',
    },
    {
      what: 'Simulated annealing: closest to 64 MB',
      paper: 'no figure',
      measured: {
        run: 'client-merging/packing',
        ours: (figure) =>
          `${figure('packing.paper-small.annealing')} bytes unfilled of the paper's sizes up to 4 MiB, ${figure('packing.medium.annealing')} of 50 files of 1 to 4 MiB`,
        holds: (figure) =>
          figure('packing.paper-small.annealing') <= 64 &&
          figure('packing.medium.annealing') <= figure('packing.medium.without-moves'),
      },
    },
    {
      what: "FileIDs of small files are calculated from the trunk's",
      paper: '',
      ours: 'a slice id has the trunk, offset and size',
      test: 'unit/staging/merge/file-id.test.ts',
    },
    {
      what: 'Deletion',
      paper: 'left open',
      ours: 'tombstones; sparse trunks are compacted',
      test: 'server/client/removals.test.ts',
    },
    over(
      'Table 1, Fig. 4: stored over no merging, 1 to 200 at a time, loopback',
      '1.73 to 3.47 x',
      'upload-small',
      CONCURRENCIES,
      stored('small', 'fastdfs'),
      1.73,
      LOOPBACK,
    ),
    over(
      "Table 1: stored over FastDFS's own merging (writes + 52.03 %), loopback",
      '1.21 to 1.52 x',
      'upload-small',
      CONCURRENCIES,
      stored('small', 'fastdfs-trunk'),
      1.21,
      LOOPBACK,
    ),
    over(
      'The same over 0.2 ms and 1 Gbit/s, 1 to 100 at a time',
      '1.21 to 1.52 x',
      'upload-1g',
      WIRED,
      stored('1g', 'fastdfs-trunk'),
      1.21,
      'with many uploads at a time the processors set the pace, as on the loopback',
    ),
    over(
      'The same over 0.5 ms and 100 Mbit/s, 1 to 5 at a time',
      '1.21 to 1.32 x',
      'upload-100m',
      ROOM,
      stored('100m', 'fastdfs-trunk'),
      1.21,
      "from a few uploads at a time on, FastDFS's own merging fills the wire as well",
    ),
    over(
      'The same, 20 and 100 at a time',
      '1.48 to 1.52 x',
      'upload-100m',
      ['20', '100'],
      stored('100m', 'fastdfs-trunk'),
      1.48,
      'the wire is full in either way: as many bytes pass it',
    ),
    {
      what: 'Table 1: it hardly falls with more uploads at a time',
      paper: '- 5 % from 1 to 200',
      measured: {
        run: UPLOADS,
        ours: (figure) => `- ${figure('write.small.fastdfs.fall').toFixed(1)} % from its peak`,
        holds: (figure) => figure('write.small.fastdfs.fall') <= 5,
        why: 'so many loops take turns on the processors that also store',
      },
    },
    over(
      "Table 2, Fig. 5: fetches over FastDFS's own merging (+ 27.69 %), nothing local, loopback",
      '1.21 to 1.39 x',
      'fetch',
      FETCH_CONCURRENCIES,
      fetched('warm', 'own'),
      1.21,
      'everything is in the page cache, so that no seek is saved; the CPU of web server and storage sets the pace',
    ),
    {
      what: 'Table 2: fetches over no merging, read on the web server while they are there',
      paper: '2.71 to 3.57 x',
      measured: {
        run: 'client-merging/fetch',
        ours: (figure) => range(ofAll(figure, FETCH_CONCURRENCIES, local)),
        holds: (figure) => Math.min(...ofAll(figure, FETCH_CONCURRENCIES, local)) >= 2.71,
        why: 'reads from the memory of the web server are bounded by its CPU',
      },
    },
    over(
      'Table 2 over 0.5 ms and 100 Mbit/s, nothing local',
      '1.21 to 1.39 x',
      'fetch-100m',
      WIRED,
      fetched('100m', 'own'),
      1.21,
      'as many bytes pass the wire; only the look-up at the tracker is saved',
    ),
    over(
      'Table 2 over 0.2 ms and 1 Gbit/s, nothing local',
      '1.21 to 1.39 x',
      'fetch-1g',
      WIRED,
      fetched('1g', 'own'),
      1.21,
      'as on the loopback',
    ),
    {
      what: 'Acknowledged, over 0.5 ms and 100 Mbit/s, one at a time',
      paper: 'no figure',
      measured: {
        run: 'client-merging/upload-100m',
        ours: (figure) =>
          `${times(figure('write.100m.c1.fastdfs.acknowledged.MBps') / figure('write.100m.c1.fastdfs-trunk.direct.MBps'))} FastDFS's own merging`,
        holds: (figure) =>
          figure('write.100m.c1.fastdfs.acknowledged.MBps') >=
          5 * figure('write.100m.c1.fastdfs-trunk.direct.MBps'),
        ...{ isModel: true, why: 'the sync of this disk takes the time that the wire would' },
      },
    },
    {
      what: 'Space allocated beforehand loses data',
      paper: 'future work',
      skipped: 'the paper does not show it either',
    },
  ],
  charts: [
    {
      ...{ name: 'client-merging-writes', benchmark: 'client-merging' },
      title: "Table 1: stored by client merging over FastDFS's own merging",
      ...{ xTitle: 'uploads at a time', yTitle: 'times' },
      labels: ['1', '2', '5', '20', '50', '100', '200'],
      series: [
        { name: 'the paper', values: atLabels(PAPER.write.merging, PAPER.write.own) },
        ...(['small', '1g', '100m'] as const).map((series) => ({
          name: { small: 'loopback', '1g': '0.2 ms, 1 Gbit/s', '100m': '0.5 ms, 100 Mbit/s' }[
            series
          ],
          values: ['1', '2', '5', '20', '50', '100', '200'].map(stored(series, 'fastdfs-trunk')),
        })),
      ],
    },
    {
      ...{ name: 'client-merging-fetches', benchmark: 'client-merging' },
      title: "Table 2: fetches of merged files over FastDFS's own merging",
      ...{ xTitle: 'fetches at a time', yTitle: 'times' },
      labels: FETCH_CONCURRENCIES.map(String),
      series: [
        {
          name: 'the paper',
          values: PAPER.fetch.merging.map((value, at) => value / (PAPER.fetch.own[at] ?? 1)),
        },
        ...(['warm', '1g', '100m'] as const).map((series) => ({
          name: { warm: 'loopback', '1g': '0.2 ms, 1 Gbit/s', '100m': '0.5 ms, 100 Mbit/s' }[
            series
          ],
          values: FETCH_CONCURRENCIES.map(String).map(fetched(series, 'own')),
        })),
      ],
    },
  ],
};

/** The paper has no figure for 2 at a time. */
function atLabels(of: readonly number[], to: readonly number[]): (number | null)[] {
  const ratios = of.map((value, at) => value / (to[at] ?? 1));
  return [ratios[0] ?? null, null, ...ratios.slice(1)];
}
