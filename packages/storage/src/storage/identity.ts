import { isIPv4 } from 'node:net';
import { type IpWidth, type Parameters, Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { isOwnAddress } from '../options.js';

/**
 * What a storage has to learn about itself: its address, as the trackers see it,
 * for file names, and the width of addresses in its answers.
 */
export class Identity {
  /** Given by the operator: not to be changed by what a tracker sees. */
  readonly #fixed: boolean;
  #address: string | undefined;
  #addressWidth: IpWidth = 'narrow';

  /** `fallback` serves until a tracker has told better. */
  constructor(address: string | undefined, fallback: string) {
    this.#fixed = address !== undefined;
    this.#address = address ?? (isOwnAddress(fallback) ? fallback : undefined);
  }

  get addressWidth(): IpWidth {
    return this.#addressWidth;
  }

  /** This storage as file names give it; status 11 while no tracker has told its address. */
  source(): string {
    if (this.#address === undefined) {
      throw new StatusError(Status.tryAgain, 'no tracker has told this storage its address');
    }
    return this.#address;
  }

  /** The address of a source in a file name; empty if nobody knows it. */
  addressOf(source: string): string {
    return isIPv4(source) ? source : '';
  }

  /** A tracker's view; servers with two addresses are told both, split by a comma. */
  learnAddress(text: string): void {
    const seen = text.split(',').find(isOwnAddress);
    if (!this.#fixed && seen !== undefined) this.#address = seen;
  }

  learnParameters(parameters: Parameters): void {
    const width = parameters.get('response_ip_addr_size');
    if (width !== undefined) this.#addressWidth = width === '46' ? 'wide' : 'narrow';
  }
}
