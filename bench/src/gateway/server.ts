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
  /** Default: this machine. */
  readonly host?: string;
  readonly port: number;
  /** Of an upload. */
  readonly headers: Readonly<Record<string, string>>;
  /** Default: `POST /files`. */
  readonly upload?: UploadTarget;
}

export interface UploadTarget {
  readonly method: 'POST' | 'PUT';
  /** Taken in turns: one for each upload where the client names its files. */
  readonly paths: readonly string[];
}

/** A file to download, and the number that its content is made from. */
export interface Stored {
  readonly path: string;
  readonly number: number;
  /** Default: 20 KB. */
  readonly bytes?: number;
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

const MAX_BYTES = 100_000;
const FILLER = 'stevedore '.repeat(MAX_BYTES / 10);

/**
 * Begins as a GIF does; different for every number; at most 100 KB. It is ASCII, because autocannon
 * gives bodies as text, and only then do equal texts mean equal bytes.
 */
export function fileText(number: number, bytes = FILE_BYTES): string {
  const head = `${SIGNATURE}${digitsOf(number)}`;
  return head + FILLER.slice(0, bytes - head.length);
}

/** Whether a body is that text: without making it. */
export function isFileText(body: string, { number, bytes = FILE_BYTES }: Stored): boolean {
  const head = `${SIGNATURE}${digitsOf(number)}`;
  return (
    body.length === bytes && body.startsWith(head) && FILLER.startsWith(body.slice(head.length))
  );
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
