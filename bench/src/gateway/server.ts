import { readFileSync } from 'node:fs';
import { FILE_BYTES } from './plan.js';

/** What the servers of this benchmark can do, and what the load has to send to each. */

export interface StartOptions {
  readonly directory: string;
  /** Everything the gateway can check of a request is checked. */
  readonly checked: boolean;
  /** Memory for files; default: the server's own. */
  readonly cacheBytes?: number | undefined;
}

export interface Started {
  readonly port: number;
  /** Of an upload. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A file to download, and the number that its content is made from. */
export interface Stored {
  readonly path: string;
  readonly number: number;
}

export type ServerHandlers = {
  readonly start: (options: StartOptions) => Promise<Started>;
  /** Stores so many new files. */
  readonly store: (count: number) => Promise<Stored[]>;
  /** Bytes that this process has read, from files and sockets; undefined where the system does not tell. */
  readonly readBytes: () => number | undefined;
};

export const FILE_TYPE = 'image/gif';
const SIGNATURE = 'GIF89a';
const DIGITS = 12;

/**
 * A GIF as far as its first bytes go, other bytes for every number. All of it is ASCII:
 * autocannon gives bodies as text, and only so are they equal if and only if their bytes are.
 */
export function fileText(number: number): string {
  return `${SIGNATURE}${digitsOf(number)}`.padEnd(FILE_BYTES, 'stevedore ');
}

/** Turns the content into that of another number. */
export function renumber(content: Buffer, number: number): void {
  content.write(digitsOf(number), SIGNATURE.length, 'latin1');
}

function digitsOf(number: number): string {
  return String(number).padStart(DIGITS, '0');
}

export function readBytes(): number | undefined {
  try {
    const found = /^rchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'latin1'));
    return found ? Number(found[1]) : undefined;
  } catch {
    return undefined;
  }
}
