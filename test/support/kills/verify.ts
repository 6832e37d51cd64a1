import { type KillClient, sha256 } from './client.js';
import { type Ledger, type LedgerFile, noteId } from './ledger.js';
import { LANES } from './load.js';

/**
 * Holds what the gateway serves against what it has acknowledged: by key, and by
 * FastDFS id where that is known. A deletion that had no answer is settled here,
 * one way or the other, and has to stay so.
 */

export interface VerifyParts {
  readonly client: KillClient;
  readonly ledger: Ledger;
  /** Hears of answers that are neither the file nor its absence. */
  readonly refusals: string[];
  /** True for files whose id is to be asked for. */
  readonly wantsId: () => boolean;
}

export async function verify(files: Iterable<LedgerFile>, parts: VerifyParts): Promise<void> {
  await forAll(files, (file) => verifyOne(file, parts));
}

/** Runs the work for every item, `LANES` at a time. */
export async function forAll<T>(
  items: Iterable<T>,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  const lane = async () => {
    for (let next = rest.next(); !next.done; next = rest.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

async function verifyOne(file: LedgerFile, parts: VerifyParts): Promise<void> {
  const { client, wantsId } = parts;
  if (file.state === 'unknown') await settleDeletion(file, parts);
  else await compare(file, `/files/${file.key}`, parts);
  if (file.state === 'alive' && wantsId()) noteId(file, await client.fileIdOf(file.key));
  if (file.state === 'unknown') return;
  // One that it had before it was moved to another trunk leads to it for ever.
  for (const id of file.fileIds) await compare(file, `/${id}`, parts);
}

async function settleDeletion(file: LedgerFile, parts: VerifyParts): Promise<void> {
  const { status, body } = await parts.client.getOnceBack(`/files/${file.key}`);
  if (status !== 200 && status !== 404) {
    parts.refusals.push(`${file.key}, perhaps deleted: ${status} ${body}`);
    return;
  }
  parts.ledger.settle(file, status === 404 ? 'deleted' : 'alive');
  await compare(file, `/files/${file.key}`, parts);
}

async function compare(
  file: LedgerFile,
  path: string,
  { client, ledger, refusals }: VerifyParts,
): Promise<void> {
  const { status, body } = await client.getOnceBack(path);
  if (file.state === 'deleted') {
    if (status === 200) ledger.report(file, 'undead', `${path} gives ${body.length} bytes`);
    else if (status !== 404) refusals.push(`${path}, deleted: ${status} ${body}`);
  } else if (status !== 200) {
    ledger.report(file, 'lost', `${path} is ${status} ${body.toString('utf8', 0, 300)}`);
  } else if (sha256(body) !== file.sha256) {
    ledger.report(file, 'altered', `${path} gives ${body.length} other bytes`);
  }
}
