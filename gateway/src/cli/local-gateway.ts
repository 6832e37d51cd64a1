import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { givenText, type OptionValues } from '@stevedore/options';
import { readLocalKey } from '../access/local-key.js';
import { isLoopback } from '../access/origins.js';
import { type GatewayOptions, gatewayOptions } from '../options.js';
import { type clientOptions, readConfigFile } from './options.js';

/**
 * The gateway on this machine, for commands that talk to it: its own key is in its directory. A
 * gateway notes that directory for its user by its port.
 */

/** Node throws if neither HOME nor the system names one. */
function home(): string | undefined {
  try {
    return homedir();
  } catch {
    return undefined;
  }
}

/**
 * In this user's state, by the XDG Base Directory Specification. Undefined for a user without a home
 * directory, as in a container.
 */
function notePath(url: string): string | undefined {
  const configured = process.env.XDG_STATE_HOME ?? '';
  const state = isAbsolute(configured) ? configured : join(home() ?? '', '.local', 'state');
  if (!isAbsolute(state)) return undefined;
  return join(state, 'stevedore', `gateway-${new URL(url).port}`);
}

/** A comfort: without the note, commands look in the configured directory. Never fails. */
export async function noteGateway(
  url: string,
  { directory, apiKeys }: GatewayOptions,
): Promise<void> {
  const path = notePath(url);
  if (path === undefined) return;
  const note = async (): Promise<void> => {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(path, resolve(directory), { mode: 0o600 });
  };
  await (apiKeys === '' ? note() : rm(path, { force: true })).catch(() => undefined);
}

/** Of a gateway on a port that the system has picked. Never fails. */
export async function forgetGateway(url: string): Promise<void> {
  const path = notePath(url);
  if (path !== undefined) await rm(path, { force: true }).catch(() => undefined);
}

/**
 * The options with the key of a gateway on this machine, unless they have a key. That key never
 * leaves the machine: no proxy gets it.
 */
export async function withLocalKey<Options extends OptionValues<typeof clientOptions>>(
  given: Options,
): Promise<Options & { readonly viaProxy: boolean }> {
  const { url, apiKey } = given;
  const options = { ...given, viaProxy: true };
  if (apiKey !== '' || !URL.canParse(url) || !isLoopback(new URL(url).hostname)) return options;
  const path = notePath(url);
  const noted = path === undefined ? '' : await readFile(path, 'utf8').catch(() => '');
  const configured = process.env.STEVEDORE_DIRECTORY || readConfigFile().directory;
  for (const directory of [noted, configured ?? gatewayOptions.directory.default]) {
    const key = directory ? await readLocalKey(givenText(String(directory))) : undefined;
    if (key !== undefined) return { ...options, apiKey: key, viaProxy: false };
  }
  return options;
}
