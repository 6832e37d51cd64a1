import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import * as protocol from '@stevedore/protocol';
import {
  type Command,
  decodeFields,
  type FileName,
  fileKind,
  type PayloadCommand,
  parseFileName,
} from '@stevedore/protocol';
import { TEST } from '../paths.js';
import { DIFFERENCES, type Difference } from './replay-differences.js';
import { RawClient, type RawReply } from './support.js';

/**
 * Plays recorded requests to our daemons and holds each answer against the recorded
 * one, field by field. What may differ stands in replay-differences.ts; any other
 * difference fails.
 */

export interface Recorded {
  readonly op: string;
  readonly server: 'tracker' | 'storage';
  readonly cluster: string;
  readonly cmd: number;
  readonly request_hex: string;
  readonly response_hex: string | null;
  readonly status: number | null;
  readonly server_closed_after: boolean;
  readonly connection?: number;
  readonly from_storage?: string;
  readonly phase?: string;
  /** Unix seconds of the recording. */
  readonly t?: number;
}

export type VectorFile =
  | 'tracker'
  | 'tracker-ids'
  | 'tracker-trunk'
  | 'storage'
  | 'storage-ids'
  | 'storage-trunk'
  | 'errors-raw'
  | 'storage-to-tracker'
  | 'storage-to-storage'
  | 'program-flows';

export function recorded(file: VectorFile): Recorded[] {
  const path = join(TEST, 'vectors/replay', `${file}.json`);
  const content = JSON.parse(readFileSync(path, 'utf8')) as {
    vectors?: Recorded[];
    programs?: { frames: Recorded[] }[];
  };
  return content.vectors ?? content.programs!.flatMap(({ frames }) => frames);
}

/** A daemon to send requests to. */
export interface Target {
  readonly host: string;
  readonly port: number;
  /** Port that it had when the answers were recorded; ours counts as the same. */
  readonly recordedPort?: number;
}

function open({ host, port }: Target, localAddress: string | undefined): Promise<RawClient> {
  return new Promise((resolve, reject) => {
    const address = localAddress === undefined ? {} : { localAddress };
    const socket: Socket = connect({ host, port, noDelay: true, ...address });
    socket.once('error', reject);
    socket.once('connect', () => resolve(new RawClient(socket)));
  });
}

/** What came of a file's vectors. */
export interface Tally {
  compared: number;
  /** The same to the last bit, but for the daemon's own port. */
  identical: number;
  /** Answers that differ as the table says, by the table's names. */
  readonly differing: Record<string, number>;
}

export class Replay {
  readonly tally: Tally = { compared: 0, identical: 0, differing: {} };
  readonly problems: string[] = [];
  readonly #target: Target;
  readonly #clients = new Map<string, RawClient>();
  /** Recorded file names and ours. */
  readonly #names = new Map<string, string>();

  constructor(target: Target) {
    this.#target = target;
  }

  /** Plays one vector and compares. `key` tells the connections apart. */
  async play(vector: Recorded, key = '', localAddress?: string): Promise<RawReply | undefined> {
    const client = this.#clients.get(key) ?? (await open(this.#target, localAddress));
    this.#clients.set(key, client);
    client.send(this.#request(vector));
    const reply = await client.reply();
    const over =
      reply === undefined || reply.isOpen || (vector.server === 'storage' && reply.status === 22);
    if (over) {
      if (reply) await client.ended();
      client.socket.destroy();
      this.#clients.delete(key);
    }
    this.#compare(vector, reply, over);
    return reply;
  }

  /** Ends the connections whose keys begin so. */
  async end(prefix: string): Promise<void> {
    for (const [key, client] of this.#clients) {
      if (!key.startsWith(prefix)) continue;
      client.socket.end();
      await client.ended();
      client.socket.destroy();
      this.#clients.delete(key);
    }
  }

  close(): void {
    for (const client of this.#clients.values()) client.socket.destroy();
  }

  /** The request with our names in the place of the recorded ones. */
  #request(vector: Recorded): Buffer {
    let text = Buffer.from(vector.request_hex, 'hex').toString('latin1');
    if (vector.server === 'tracker') return Buffer.from(text, 'latin1');
    const names = [...this.#names].sort(([a], [b]) => b.length - a.length);
    const name = names.find(([theirs]) => text.includes(theirs));
    if (!name) return Buffer.from(text, 'latin1');
    const before = text.length;
    text = text.replace(name[0], name[1]);
    const request = Buffer.from(text, 'latin1');
    const grown = text.length - before;
    if (grown === 0) return request;
    // The lengths in the header and in front of the name.
    const add = (at: number): number =>
      request.writeBigInt64BE(request.readBigInt64BE(at) + BigInt(grown), at);
    add(0);
    if ([13, 21, 24, 34, 36].includes(vector.cmd)) add(10);
    if (vector.cmd === 20) add(18);
    return request;
  }

  #compare(vector: Recorded, reply: RawReply | undefined, closed: boolean): void {
    this.tally.compared += 1;
    const theirs = vector.response_hex === null ? undefined : rawReply(vector.response_hex);
    this.#learnName(vector, theirs, reply);
    const sameBytes =
      theirs?.status === reply?.status && (theirs?.body ?? NONE).equals(reply?.body ?? NONE);
    // A recorded QUIT of a storage does not tell who closed first.
    const sameEnd = vector.server_closed_after === closed || vector.cmd === 82;
    if (sameBytes && sameEnd) {
      this.tally.identical += 1;
      return;
    }
    const differing = new Set<string>(sameEnd ? [] : ['closed']);
    const valuesOf = new Map<string, string>([
      ['status', `${theirs?.status}, ours ${reply?.status}`],
    ]);
    if (theirs?.status !== reply?.status) differing.add('status');
    else {
      const fields = differingFields(vector, theirs, reply, this.#target);
      for (const [field, values] of fields) {
        differing.add(field);
        valuesOf.set(field, values);
      }
    }
    if (differing.size === 0) this.tally.identical += 1;
    const used = new Set<Difference>();
    for (const field of differing) {
      const entry = DIFFERENCES.find((each) => each.applies(vector) && each.fields.test(field));
      if (entry) used.add(entry);
      else this.problems.push(`${vector.op}: ${field} ${valuesOf.get(field) ?? ''}`);
    }
    for (const { name } of used) {
      this.tally.differing[name] = (this.tally.differing[name] ?? 0) + 1;
    }
  }

  #learnName(vector: Recorded, theirs?: RawReply, ours?: RawReply): void {
    if (!NAMING.includes(vector.cmd) || theirs?.status !== 0 || ours?.status !== 0) return;
    const decode = (reply: RawReply): string => protocol.uploadFile.reply.decode(reply.body).name;
    this.#names.set(decode(theirs), decode(ours));
  }
}

/** Commands that answer with a new name: uploads, slaves, links, regenerated names. */
const NAMING = [11, 20, 21, 23, 38];
const NONE = Buffer.alloc(0);

function rawReply(hex: string): RawReply {
  const bytes = Buffer.from(hex, 'hex');
  return { command: bytes[8]!, status: bytes[9]!, body: bytes.subarray(10) };
}

type AnyCommand = Command<unknown, unknown> | PayloadCommand<unknown, unknown>;

const COMMANDS = new Map<number, AnyCommand>();
for (const value of Object.values(protocol)) {
  if (typeof value !== 'object' || !('code' in value) || !('reply' in value)) continue;
  COMMANDS.set(value.code, value as AnyCommand);
}

/** Paths of the fields in which two answers of the same status differ. */
function differingFields(
  vector: Recorded,
  theirs: RawReply | undefined,
  ours: RawReply | undefined,
  { port, recordedPort }: Target,
): [field: string, values: string][] {
  if (!theirs || !ours) return [['reply', 'one is missing']];
  const lengths = `${theirs.body.length} bytes, ours ${ours.body.length}`;
  const command = COMMANDS.get(vector.cmd);
  if (!command || theirs.status !== 0) return [['body', lengths]];
  let both: [Map<string, unknown>, Map<string, unknown>];
  try {
    both = [fieldsOf(vector.cmd, command, theirs), fieldsOf(vector.cmd, command, ours)];
  } catch {
    return [['body', lengths]];
  }
  const paths = new Set([...both[0].keys(), ...both[1].keys()]);
  const different = [...paths].filter((path) => both[0].get(path) !== both[1].get(path));
  // The same fields, other bytes: what is behind the NUL of a text.
  if (different.length === 0) return [['padding', lengths]];
  return different.flatMap((path): [string, string][] => {
    const [one, other] = [both[0].get(path), both[1].get(path)];
    const isPort = path === 'leader.port' && one === recordedPort && other === port;
    if (isPort || String(one).replace(`:${recordedPort}`, `:${port}`) === other) return [];
    return [[path, `${String(one)}, ours ${String(other)}`]];
  });
}

function fieldsOf(cmd: number, command: AnyCommand, reply: RawReply): Map<string, unknown> {
  const value = command.reply.decode(reply.body);
  const fields = new Map<string, unknown>([
    ...(NAMING.includes(cmd) ? nameFields(value as FileName) : flatten(value, '')),
  ]);
  return fields;
}

/** A name taken apart; random digits of its tail count by their number. */
function nameFields({ group, name }: FileName): [string, unknown][] {
  const id = parseFileName(group, name);
  if (!id) throw new Error(`"${name}" is not a file name`);
  const { source, createdAtSeconds, sizeField, crc32 } = decodeFields(id.base);
  const slot = fileKind(id) === 'slot' || (sizeField & (1n << 59n)) !== 0n;
  const tail = id.base.slice(slot ? 43 : 27);
  return [
    ['group', group],
    ['store path', id.storePathIndex],
    ['directory', id.directory.join('/')],
    ['source', source],
    ['created', createdAtSeconds],
    ['flags', Number((sizeField >> 55n) & ~(1n << 4n))],
    ['slot', slot],
    ['random bits', Number((sizeField >> 32n) & 0x7f_ffffn)],
    ['size', Number(sizeField & 0xffff_ffffn)],
    ['crc32', crc32],
    ['tail', tail.replace(/^\d+/, (digits) => '#'.repeat(digits.length))],
    ['random digits', /^\d*/.exec(tail)![0]],
  ];
}

function flatten(value: unknown, path: string): [string, unknown][] {
  if (Buffer.isBuffer(value)) return [[path, value.toString('hex')]];
  if (value instanceof Map) return flatten(Object.fromEntries(value), path);
  if (typeof value !== 'object' || value === null) return [[path, value]];
  return Object.entries(value).flatMap(([key, part]) =>
    flatten(part, path === '' ? key : `${path}.${key}`),
  );
}
