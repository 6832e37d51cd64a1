import { isIP, isIPv6 } from 'node:net';
import { OptionError } from '@stevedore/options';
import { isGroupName, STORAGE_ID_BYTES, Status } from '@stevedore/protocol';
import { idOfAddress, StatusError } from '@stevedore/wire';

/**
 * What identifies a storage: its address, or an id from a list
 *
 *     100001 group1 10.0.0.7:23000
 *     100002 group1 10.0.0.8,192.168.0.8 rw=read
 *
 * as in FastDFS's storage_ids.conf, with IPv6 addresses in square brackets.
 */

export interface StorageIdEntry {
  readonly id: string;
  readonly group: string;
  readonly addresses: readonly string[];
  /** Undefined: any. */
  readonly port: number | undefined;
  /** 4: reads, 2: writes, 6: both, 0: neither. */
  readonly readWriteMode: number;
  readonly line: string;
}

const READ_WRITE_MODES: ReadonlyMap<string, number> = new Map([
  ['none', 0],
  ['write', 2],
  ['read', 4],
  ['both', 6],
]);
/** Larger ids would look like IPv4 addresses in file names. */
const MAX_ID = 0xff_ffff;
const ALL = 6;

export class StorageIds {
  readonly #entries: readonly StorageIdEntry[];

  /** Throws OptionError for a malformed line. Without lines, storages have no ids. */
  constructor(lines: readonly string[]) {
    this.#entries = lines.map(parseLine);
    if (new Set(this.#entries.map(({ id }) => id)).size !== lines.length) {
      throw new OptionError('storageIds names an id twice');
    }
  }

  get used(): boolean {
    return this.#entries.length > 0;
  }

  /** True if any storage has an IPv6 address. */
  get useIpv6(): boolean {
    return this.#entries.some(({ addresses }) => addresses.some(isIPv6));
  }

  get lines(): readonly string[] {
    return this.#entries.map(({ line }) => line);
  }

  byId(id: string): StorageIdEntry | undefined {
    return this.#entries.find((entry) => entry.id === id);
  }

  at(address: string, port: number, group?: string): StorageIdEntry | undefined {
    return this.#entries.find(
      (entry) =>
        (group === undefined || entry.group === group) &&
        entry.addresses.includes(address) &&
        (entry.port === undefined || entry.port === port),
    );
  }

  /** The id of a storage that joins; status 2 if it is not listed. */
  idOf(address: string, port: number, group: string, claimed: string): string {
    if (!this.used) {
      if (isIPv6(address)) {
        throw new StatusError(
          Status.invalid,
          `${address} joins ${group}: storages at IPv6 addresses need storage ids`,
        );
      }
      return idOfAddress(address);
    }
    const entry = claimed === '' ? this.at(address, port, group) : this.byId(claimed);
    if (!entry || entry.group !== group) {
      throw new StatusError(Status.notFound, `no storage id of ${address}:${port} in ${group}`);
    }
    return entry.id;
  }

  readWriteModeOf(id: string): number {
    return this.byId(id)?.readWriteMode ?? ALL;
  }
}

function parseLine(text: string): StorageIdEntry {
  const [id = '', group = '', host = '', ...rest] = text.trim().split(/\s+/);
  const wrong = new OptionError(
    `storageIds: "${text}" is not of the form "ID GROUP ADDRESS[,ADDRESS][:PORT] [rw=MODE]"`,
  );
  const [, hosts, portText] =
    /^((?:\[[^\]]+\]|[^[\]:]+)(?:,(?:\[[^\]]+\]|[^[\]:,]+))*)(?::(\d{1,5}))?$/.exec(host) ?? [];
  if (hosts === undefined || !/^\d{1,8}$/.test(id) || Number(id) < 1 || Number(id) > MAX_ID)
    throw wrong;
  const addresses = hosts.split(',').map((each) => each.replace(/^\[(.*)\]$/, '$1'));
  const [how] = rest;
  const mode = how === undefined ? ALL : READ_WRITE_MODES.get(how.replace(/^rw=/, ''));
  const port = portText === undefined ? undefined : Number(portText);
  if (
    !isGroupName(group) ||
    addresses.some((each) => isIP(each) === 0) ||
    (port !== undefined && (port < 1 || port > 65_535)) ||
    mode === undefined ||
    rest.length > 1 ||
    id.length >= STORAGE_ID_BYTES
  ) {
    throw wrong;
  }
  const line = [id, group, host, ...rest].join(' ');
  return { id, group, addresses, port, readWriteMode: mode, line };
}
