import type { Tally } from './replay.js';

/** What has come of each part of the replay: compared, identical, and differing as the table says. */
export const TALLIES: Readonly<Record<string, Tally>> = {
  'errors-raw ids storage': {
    compared: 0,
    identical: 0,
    differing: {},
  },
  'errors-raw ids tracker': {
    compared: 9,
    identical: 8,
    differing: {
      'echoed requests': 1,
    },
  },
  'errors-raw plain storage': {
    compared: 27,
    identical: 23,
    differing: {
      'new names': 3,
      strangers: 1,
    },
  },
  'errors-raw plain tracker': {
    compared: 39,
    identical: 38,
    differing: {
      times: 1,
    },
  },
  'errors-raw trunk storage': {
    compared: 11,
    identical: 4,
    differing: {
      'trunk files off: trunk server': 6,
      'list of files': 1,
    },
  },
  'errors-raw trunk tracker': {
    compared: 3,
    identical: 0,
    differing: {
      'trunk files off: reports': 3,
    },
  },
  'program-flows ids 100001': {
    compared: 1,
    identical: 0,
    differing: {
      directories: 1,
      'new names': 1,
    },
  },
  'program-flows ids 100002': {
    compared: 1,
    identical: 0,
    differing: {
      directories: 1,
      'new names': 1,
    },
  },
  'program-flows ids tracker': {
    compared: 8,
    identical: 6,
    differing: {
      turns: 2,
    },
  },
  'program-flows plain storage': {
    compared: 47,
    identical: 29,
    differing: {
      'new names': 10,
      times: 8,
    },
  },
  'program-flows plain tracker': {
    compared: 50,
    identical: 45,
    differing: {
      'storage reports': 4,
      'connections of the tracker': 1,
    },
  },
  storage: {
    compared: 92,
    identical: 60,
    differing: {
      'new names': 18,
      times: 12,
      'echoed requests': 2,
      'checksums of links': 2,
    },
  },
  'storage-ids': {
    compared: 92,
    identical: 60,
    differing: {
      directories: 18,
      'new names': 18,
      times: 12,
      'echoed requests': 2,
      'checksums of links': 2,
    },
  },
  'storage-to-storage ids': {
    compared: 30,
    identical: 21,
    differing: {
      'files that were not recorded': 9,
    },
  },
  'storage-to-storage trunk2': {
    compared: 45,
    identical: 27,
    differing: {
      'trunk files off: trunk server': 17,
      'echoed requests': 1,
    },
  },
  'storage-to-tracker ids': {
    compared: 60,
    identical: 58,
    differing: {
      'leader at once': 2,
    },
  },
  'storage-to-tracker plain': {
    compared: 29,
    identical: 27,
    differing: {
      'leader at once': 2,
    },
  },
  'storage-to-tracker trunk': {
    compared: 26,
    identical: 20,
    differing: {
      'trunk files off: settings and records': 2,
      'leader at once': 2,
      'trunk files off: reports': 3,
    },
  },
  'storage-to-tracker trunk2': {
    compared: 61,
    identical: 52,
    differing: {
      'trunk files off: settings and records': 4,
      'leader at once': 2,
      'trunk files off: reports': 4,
    },
  },
  'storage-trunk': {
    compared: 92,
    identical: 57,
    differing: {
      'new names': 18,
      'trunk files off: names': 16,
      times: 12,
      'trunk files off: no appender': 3,
      'echoed requests': 2,
      'trunk files off: links': 1,
      'checksums of links': 2,
    },
  },
  tracker: {
    compared: 32,
    identical: 25,
    differing: {
      'storage reports': 6,
      'connections of the tracker': 1,
    },
  },
  'tracker-ids': {
    compared: 32,
    identical: 25,
    differing: {
      'storage reports': 6,
      'connections of the tracker': 1,
    },
  },
  'tracker-trunk': {
    compared: 32,
    identical: 25,
    differing: {
      'storage reports': 6,
      'trunk files off: settings and records': 6,
      'connections of the tracker': 1,
    },
  },
};
