/** What is uploaded to the servers and downloaded from them. Pure. */

/** Where a server is, and what the load has to send to it. */
export interface Target {
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

export interface Content {
  /** Its bytes are made from it. */
  readonly number: number;
  readonly bytes: number;
}

/** A file to download. */
export interface Stored extends Content {
  readonly path: string;
}

export const FILE_TYPE = 'image/gif';
export const UPLOAD_BYTES = 20_000;
export const LEAST_BYTES = 2_000;
export const MOST_BYTES = 100_000;
const SIGNATURE = 'GIF89a';
const DIGITS = 12;
const FILLER = 'stevedore '.repeat(MOST_BYTES / 10);

/**
 * Begins as a GIF does; different for every number. It is ASCII, because autocannon gives bodies
 * as text, and only then do equal texts mean equal bytes.
 */
export function fileText({ number, bytes }: Content): string {
  const head = `${SIGNATURE}${digitsOf(number)}`;
  return head + FILLER.slice(0, bytes - head.length);
}

/** Whether a body is that text: without making it. */
export function isFileText(body: string, { number, bytes }: Content): boolean {
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
