import type { IdPendingReason, Receipt, StoredFile } from '@stevedore/client';
import { ProblemError } from './problems.js';

/** Keys, and receipts as JSON. */

export interface ReceiptJson {
  readonly key: string;
  /** A path, or a whole URL where the server knows its public address. */
  readonly url: string;
  readonly name: string;
  readonly size: number;
  readonly type: string;
  /** 8 hexadecimal digits. */
  readonly crc32: string;
  readonly state: string;
  /** RFC 3339. */
  readonly stagedAt: string;
  /** RFC 3339; absent if the file never expires. */
  readonly expiresAt?: string;
  readonly affinityGroup?: string;
  /** Of a derived file: the key of the file that it was made of. */
  readonly pictureOf?: string;
  /** Once merged. */
  readonly fileId?: string;
  /** Of an upload with a map: machines that had it when it was acknowledged. */
  readonly copies?: 1 | 2;
  /** Of an existing file without `fileId`: why, and until when at the latest (RFC 3339). */
  readonly idPending?: { readonly reason: IdPendingReason; readonly by?: string };
}

/** A receipt, or a file's facts. `base`: what precedes `/KEY` in the file's URL. */
export function receiptJson(
  receipt: Omit<Receipt, 'fileId'> & Pick<StoredFile, 'fileId' | 'idPending'>,
  base: string,
): ReceiptJson {
  const json: { -readonly [Name in keyof ReceiptJson]: ReceiptJson[Name] } = {
    key: receipt.key,
    url: `${base}/${receipt.key}`,
    name: receipt.name,
    size: receipt.size,
    type: receipt.type,
    crc32: receipt.crc32.toString(16).padStart(8, '0'),
    state: receipt.state,
    stagedAt: receipt.stagedAt.toISOString(),
  };
  if (receipt.expiresAt !== undefined) json.expiresAt = receipt.expiresAt.toISOString();
  if (receipt.group !== undefined) json.affinityGroup = receipt.group;
  if (receipt.pictureOf !== undefined) json.pictureOf = receipt.pictureOf;
  if (receipt.fileId !== undefined) json.fileId = receipt.fileId;
  if (receipt.copies !== undefined) json.copies = receipt.copies;
  if (receipt.idPending) {
    const { reason, by } = receipt.idPending;
    json.idPending = by ? { reason, by: by.toISOString() } : { reason };
  }
  return json;
}

/** In the place of a file of an upload that was deleted since. */
export interface DeletedJson {
  readonly state: 'deleted';
}

/** A receipt of an upload that may have been sent again. */
export function partJson(receipt: Receipt, base: string): ReceiptJson | DeletedJson {
  return receipt.state === 'deleted' ? { state: 'deleted' } : receiptJson(receipt, base);
}

/**
 * The grammar of keys: 16 bytes as 22 base64url characters, of which the last one carries two bits.
 * Anything else never reaches the store, which would also accept a FastDFS id.
 */
const KEY = /^[A-Za-z0-9_-]{21}[AQgw]$/;

export function checkKey(text: string): string {
  if (KEY.test(text)) return text;
  throw new ProblemError('invalid_key', 'A key has 22 characters: letters, digits, - and _.');
}
