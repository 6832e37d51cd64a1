import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type ApiKey, keyOfText, makeApiKey, SCOPES } from './api-keys.js';
import { replaceFile } from './watched-file.js';

/**
 * The key of a gateway that has no API keys: who may read its directory may list its files. The
 * first start makes it, for this user alone. Commands of this user on the machine find it by
 * themselves, and the console has it in the address that the gateway prints at its start.
 *
 * The address of a request proves nothing: requests through a proxy on this machine all have the
 * proxy's.
 */

const FILE = 'local-key';

/** Undefined if there is none, or this user may not read it. */
export async function readLocalKey(directory: string): Promise<string | undefined> {
  const text = await readFile(join(directory, FILE), 'utf8').catch(() => '');
  return keyOfText(text.trim(), SCOPES) && text.trim();
}

/** Makes it if there is none. */
export async function openLocalKey(directory: string): Promise<ApiKey> {
  const known = keyOfText((await readLocalKey(directory)) ?? '', SCOPES);
  if (known) return known;
  const { key, text } = makeApiKey({ name: FILE, scopes: SCOPES }, new Date());
  await replaceFile(join(directory, FILE), `${text}\n`);
  return key;
}

/** Where there are API keys, it is none of them. */
export function removeLocalKey(directory: string): Promise<void> {
  return rm(join(directory, FILE), { force: true });
}
