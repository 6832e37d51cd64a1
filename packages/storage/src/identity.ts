import { isIPv4 } from 'node:net';
import type { IpWidth, Parameters } from '@stevedore/protocol';
import { isOwnAddress } from '@stevedore/wire';
import { tryAgain } from './refusals.js';

/**
 * What a storage learns about itself from the trackers: its address, its id if the cluster
 * uses ids, which of the two file names contain, and the width of addresses in its answers.
 */
export class Identity {
  /** The operator gave the address: trackers do not change it. */
  readonly #fixed: boolean;
  #address: string | undefined;
  #addressWidth: IpWidth = 'narrow';
  #usesIds = false;
  #idInNames = false;
  #id: string | undefined;
  /** Ids of storages that may not make changes. */
  #readOnly: ReadonlySet<string> = new Set();
  #addresses: ReadonlyMap<string, string> = new Map();

  /** `fallback` is the address until a tracker sends one. */
  constructor(address: string | undefined, fallback: string) {
    this.#fixed = address !== undefined;
    this.#address = address ?? (isOwnAddress(fallback) ? fallback : undefined);
  }

  get addressWidth(): IpWidth {
    return this.#addressWidth;
  }

  /** True if the cluster tells storages apart by ids. */
  get usesIds(): boolean {
    return this.#usesIds;
  }

  /** Undefined while it is unknown. */
  get address(): string | undefined {
    return this.#address;
  }

  /** This storage as file names have it; status 11 until a tracker has sent it. */
  source(): string {
    const source = this.#idInNames ? this.#id : this.#address;
    if (source === undefined) throw tryAgain('no tracker has told this storage who it is');
    if (source.includes(':')) {
      // An IPv6 address: a file name has only four bytes for it.
      throw tryAgain('a storage at an IPv6 address needs a storage id');
    }
    return source;
  }

  /** True if this source in a file name is this storage, as far as it knows. */
  isSource(source: string): boolean {
    return source === (this.#idInNames ? this.#id : this.#address);
  }

  /** The first address of a source in a file name; empty if it is unknown. */
  addressOf(source: string): string {
    return isIPv4(source) ? source : (this.#addresses.get(source) ?? '');
  }

  /** Takes the address that a tracker sees; of two, separated by a comma, the first usable. */
  learnAddress(text: string): void {
    const seen = text.split(',').find(isOwnAddress);
    if (!this.#fixed && seen !== undefined) this.#address = seen;
  }

  learnParameters(parameters: Parameters): void {
    const width = parameters.get('response_ip_addr_size');
    if (width !== undefined) this.#addressWidth = width === '46' ? 'wide' : 'narrow';
    this.#usesIds = parameters.get('use_storage_id') === '1';
    this.#idInNames = this.#usesIds && parameters.get('id_type_in_filename') === 'id';
  }

  /** Takes the own id and the cluster's list, `id group ip[,ip2][:port] [rw=mode]`. */
  learnIds(own: string, lines: readonly string[]): void {
    this.#id = own;
    // Such as `100002 group1 10.0.0.8 rw=read`.
    this.#readOnly = new Set(
      lines.flatMap((line) => (/\s(?:rw=)?(?:read|none)$/.test(line) ? line.split(' ', 1) : [])),
    );
    this.#addresses = new Map(
      lines.map((line) => {
        const [id = '', , host = ''] = line.split(' ');
        const [plain = '', bracketed] = /^(?:\[([^\]]+)\]|[^,:]*)/.exec(host) ?? [];
        return [id, bracketed ?? plain];
      }),
    );
  }

  /** True for a member that may not make changes. */
  isReadOnly(id: string): boolean {
    return this.#readOnly.has(id);
  }
}
