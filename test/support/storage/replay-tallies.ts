import type { Tally } from './replay.js';

const tally = (
  compared: number,
  identical: number,
  differing: Record<string, number> = {},
): Tally => ({ compared, identical, differing });

/** What has come of each part of the replay: compared, identical, and differing as the table says. */
export const TALLIES: Readonly<Record<string, Tally>> = {
  'errors-raw ids storage': tally(0, 0),
  'errors-raw ids tracker': tally(9, 8, { 'echoed requests': 1 }),
  'errors-raw plain storage': tally(27, 23, { 'new names': 3, strangers: 1 }),
  'errors-raw plain tracker': tally(39, 38, { times: 1 }),
  'errors-raw trunk storage': tally(11, 4, {
    'trunk files off: trunk server': 6,
    'list of files': 1,
  }),
  'errors-raw trunk tracker': tally(3, 0, { 'trunk files off: reports': 3 }),
  'program-flows ids 100001': tally(1, 0, { directories: 1, 'new names': 1 }),
  'program-flows ids 100002': tally(1, 0, { directories: 1, 'new names': 1 }),
  'program-flows ids tracker': tally(8, 6, { turns: 2 }),
  'program-flows plain storage': tally(47, 29, { 'new names': 10, times: 8 }),
  'program-flows plain tracker': tally(50, 45, {
    'storage reports': 4,
    'connections of the tracker': 1,
  }),
  storage: tally(92, 58, {
    'new names': 17,
    times: 11,
    'echoed requests': 2,
    'links of clients': 4,
  }),
  'storage-ids': tally(92, 58, {
    directories: 17,
    'new names': 17,
    times: 11,
    'echoed requests': 2,
    'links of clients': 4,
  }),
  'storage-to-storage ids': tally(30, 21, { 'files that were not recorded': 9 }),
  'storage-to-storage trunk2': tally(45, 27, {
    'trunk files off: trunk server': 17,
    'echoed requests': 1,
  }),
  'storage-to-tracker ids': tally(60, 58, { 'leader at once': 2 }),
  'storage-to-tracker plain': tally(29, 27, { 'leader at once': 2 }),
  'storage-to-tracker trunk': tally(26, 20, {
    'trunk files off: settings and records': 2,
    'leader at once': 2,
    'trunk files off: reports': 3,
  }),
  'storage-to-tracker trunk2': tally(61, 52, {
    'trunk files off: settings and records': 4,
    'leader at once': 2,
    'trunk files off: reports': 4,
  }),
  'storage-trunk': tally(92, 55, {
    'new names': 17,
    'trunk files off: names': 15,
    times: 11,
    'trunk files off: no appender': 3,
    'echoed requests': 2,
    'links of clients': 4,
  }),
  tracker: tally(32, 25, { 'storage reports': 6, 'connections of the tracker': 1 }),
  'tracker-ids': tally(32, 25, { 'storage reports': 6, 'connections of the tracker': 1 }),
  'tracker-trunk': tally(32, 25, {
    'storage reports': 6,
    'trunk files off: settings and records': 6,
    'connections of the tracker': 1,
  }),
};
