import type { Recorded } from './replay.js';

/**
 * All that may differ between a recorded answer and ours, with the reason. A
 * replayed answer that differs in a field that no entry names fails its test, and
 * the tests count how many answers each entry was needed for.
 */

export interface Difference {
  readonly name: string;
  readonly reason: string;
  applies(vector: Recorded): boolean;
  /** Paths of the fields. `status`, `closed`, `body` and `padding` are fields too. */
  readonly fields: RegExp;
}

const code =
  (...codes: number[]) =>
  ({ cmd }: Recorded): boolean =>
    codes.includes(cmd);

/** Clusters that kept small files in FastDFS's own trunk files. */
const withTrunkFiles = ({ cluster }: Recorded): boolean => cluster.startsWith('trunk');

const NEW_NAME = [11, 20, 21, 23, 38];
const TRUNK_SERVER = [27, 28, 29, 30, 31, 32, 33];

export const DIFFERENCES: readonly Difference[] = [
  {
    name: 'new names',
    reason: 'the time of an upload and the random bits and digits of its name are its own',
    applies: code(...NEW_NAME),
    fields: /^(created|random bits|random digits)$/,
  },
  {
    name: 'links of clients',
    reason:
      'ours makes links for other members alone, and answers 22 as for other unknown commands',
    applies: ({ op }) => op.includes('link'),
    fields: /^(status|closed|body|padding)$/,
  },
  {
    name: 'times',
    reason: 'when a file was changed here, and for how long this tracker has been running',
    applies: code(22, 64),
    fields: /^(mtimeSeconds|runningSeconds)$/,
  },
  {
    name: 'directories',
    reason:
      'the recorded storage hashed names to directories, ours fills one after the other; readers follow the name',
    applies: (vector) => vector.cluster === 'ids' && NEW_NAME.includes(vector.cmd),
    fields: /^directory$/,
  },
  {
    name: 'echoed requests',
    reason:
      'the C daemons send the request back where an empty body is due, and their own client fails on it',
    applies: code(24, 34, 36, 40, 78),
    fields: /^(body|padding)$/,
  },
  {
    name: 'storage reports',
    reason:
      'the recording lacks some of the reports that the C tracker answered from: room, last beat, counts',
    applies: code(90, 91, 92, 97, 98),
    fields:
      /\.(freeMegabytes|availableMegabytes|heardAtSeconds|lastHeartBeatSeconds|lastSourceUpdateSeconds|connections\.(current|max)|operations\.\w+\.(total|success))$/,
  },
  {
    name: 'connections of the tracker',
    reason:
      'the C tracker counts connections that it has made room for; who is connected is the replay',
    applies: code(96),
    fields: /\.connections\.(allocated|current|max)$/,
  },
  {
    name: 'leader at once',
    reason:
      'a C tracker elects itself some seconds after the first join and tells then; ours leads from its start',
    applies: code(83),
    fields: /^(leader|members\.\d+)\./,
  },
  {
    name: 'turns',
    reason: 'the store path whose turn it is depends on queries that were not recorded',
    applies: ({ op, cmd }) => cmd === 101 && op.startsWith('prog-ids.'),
    fields: /^storePathIndex$/,
  },
  {
    name: 'trunk files off: names',
    reason:
      'our storage keeps every file on its own: names are 16 characters shorter and lack bit 59',
    applies: (vector) => withTrunkFiles(vector) && NEW_NAME.includes(vector.cmd),
    fields: /^slot$/,
  },
  {
    name: 'trunk files off: no appender',
    reason:
      'the C storage does not find the plain file of a trunk slot (2); ours does and sees no appender (22)',
    applies: ({ cluster, op }) => cluster === 'trunk' && op.endsWith('.not_appender'),
    fields: /^(status|closed)$/,
  },
  {
    name: 'trunk files off: settings and records',
    reason: 'our tracker has no trunk server and says that the cluster uses no trunk files',
    applies: (vector) => withTrunkFiles(vector) && code(75, 83, 90, 91, 92, 97, 98)(vector),
    fields:
      /^(use_trunk_file|store_slave_file_use_link|usesTrunkFiles|trunkServer\.\w+|(\w+\.)?\d+\.(currentTrunkFileId|isTrunkServer|isTrunkAvailable))$/,
  },
  {
    name: 'trunk files off: reports',
    reason:
      'no storage is a trunk server, so its reports are refused (22) and none can be set (95)',
    applies: (vector) => withTrunkFiles(vector) && code(73, 74, 94)(vector),
    fields: /^status$/,
  },
  {
    name: 'trunk files off: trunk server',
    reason: 'our storage answers 22 as a C storage without trunk files does, which then closes',
    applies: (vector) => withTrunkFiles(vector) && TRUNK_SERVER.includes(vector.cmd),
    fields: /^(status|closed)$/,
  },
  {
    name: 'list of files',
    reason: 'our storage has none of the files that the recorded one lists',
    applies: code(26),
    fields: /^body$/,
  },
  {
    name: 'files that were not recorded',
    reason: 'the recording of this cluster lacks some of the files that are changed later',
    applies: ({ cmd, cluster }) => cluster === 'ids' && [17, 25, 35, 37, 40].includes(cmd),
    fields: /^status$/,
  },
  {
    name: 'strangers',
    reason: 'our storage lets only members of its group send copies, by their addresses',
    applies: ({ cmd, op }) => cmd === 9 && op.startsWith('raw.'),
    fields: /^status$/,
  },
];
