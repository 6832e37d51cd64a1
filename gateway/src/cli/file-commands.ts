import { once } from 'node:events';
import { formatBytes, type OptionValues, option } from '@stevedore/options';
import type { Command } from 'commander';
import { complaint, EXIT_FAILED, printable, UsageError } from './errors.js';
import { endsAll, GatewayClient } from './gateway-client.js';
import { withLocalKey } from './local-gateway.js';
import { clientOptions, define, flags, jsonOption } from './options.js';
import { countOf } from './progress.js';
import { type AtEnd, interruptible } from './signals.js';

/** `stevedore ls`, `stat`, `rm` and `flush`: files of a gateway, by key, FastDFS id or group. */

const statOptions = { ...clientOptions, ...jsonOption };

/** Prints a file's facts. */
export function stat(command: Command): void {
  define(command, statOptions, '', (options, id: string) =>
    withClient(options, async (client) => {
      const info = await client.stat(id);
      process.stdout.write(`${options.json ? JSON.stringify(info) : rows(info)}\n`);
    }),
  );
}

function rows(info: Record<string, unknown>): string {
  return Object.entries(info)
    .map(([name, value]) => `${name.padEnd(14)} ${printable(wordsOf(value))}`)
    .join('\n');
}

/** `idPending` as words: `waiting, by 2026-…`. */
function wordsOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  const { reason, by } = value as Record<string, unknown>;
  return by === undefined ? String(reason) : `${reason}, by ${by}`;
}

/** Which files; a file must match all conditions. */
export const filterOptions = flags({
  group: option.text('', 'only files of this affinity group', { short: 'g' }),
  prefix: option.text('', 'only files whose names begin so'),
  type: option.text('', 'only files of this type: image/png, or image/*'),
  since: option.text('', 'only files whose upload began at this time (RFC 3339) or later'),
  until: option.text('', 'only files whose upload began before this time'),
});

const listOptions = {
  ...clientOptions,
  ...jsonOption,
  ...filterOptions,
  ...flags({
    order: option.choice('oldest', ['oldest', 'newest'], 'which files come first'),
    derived: option.boolean(false, 'list derived files too, such as pictures in other sizes'),
    keys: option.boolean(false, 'print keys alone'),
    groups: option.boolean(false, 'list affinity groups in place of files'),
    limit: option.integer(0, 'most lines; 0: 1000 on a terminal, else all', {
      short: 'n',
    }),
  }),
};

const MAX_SHOWN = 1000;

const LIST_HELP = `
Examples:
  stevedore ls --group album-7
  stevedore ls --groups
  stevedore ls --type 'image/*' --since 2026-03-01
  stevedore ls --order newest | head
  stevedore ls --prefix tmp/ --keys | xargs -r stevedore rm`;

/**
 * Prints a line for each file. People on a terminal get sizes with units and a last
 * line with the total; programs get bytes and nothing else.
 */
export function list(command: Command): void {
  define(command, listOptions, LIST_HELP, (options) =>
    withClient(options, async (client) => {
      const { json, keys, limit, groups, ...filter } = options;
      const most = limit || (process.stdout.isTTY ? MAX_SHOWN : Number.POSITIVE_INFINITY);
      if (groups) {
        const { group, prefix, type, since, until, order, derived } = filter;
        if (keys || derived || order !== 'oldest' || group + prefix + type + since + until !== '') {
          throw new UsageError('of the other options, only --limit and --json go with --groups');
        }
        await print(allGroups(client), 'groups', most, (group) =>
          json ? JSON.stringify({ group }) : printable(group),
        );
        return;
      }
      const isForPeople = process.stdout.isTTY && !json && !keys;
      let bytes = 0;
      const files = await print(listed(client, filter), 'files', most, (file) => {
        bytes += Number(file.size);
        if (json) return JSON.stringify(file);
        const { key, size, stagedAt, name } = file;
        if (keys) return String(key);
        const shown = isForPeople ? formatBytes(Number(size)).padStart(SIZE_CHARS) : size;
        return `${key}  ${shown}  ${stagedAt}  ${printable(String(name))}`;
      });
      if (isForPeople) await write(`${countOf(files)}, ${formatBytes(bytes)}\n`);
    }),
  );
}

/** A line for each, up to `most`. Resolves with their number. */
async function print<Item>(
  items: AsyncIterable<Item>,
  what: string,
  most: number,
  lineOf: (item: Item) => string,
): Promise<number> {
  let lines = 0;
  for await (const item of items) {
    if (lines === most) {
      process.stderr.write(`there are more ${what}: --limit shows more of them\n`);
      break;
    }
    lines += 1;
    await write(`${lineOf(item)}\n`);
  }
  return lines;
}

/** All files that match, of all servers of the gateway's deployment. */
export function listed(
  client: GatewayClient,
  {
    order = 'oldest',
    derived = false,
    ...filter
  }: OptionValues<typeof filterOptions> & { readonly order?: string; readonly derived?: boolean },
): AsyncGenerator<Record<string, unknown>, void, undefined> {
  const { group, prefix, type, since, until } = filter;
  const asked = { group, 'name-prefix': prefix, type, since, until, order };
  const query = derived ? { ...asked, derived: 'true' } : asked;
  return ofAllPages('files', (after) => client.list({ ...query, after }));
}

function allGroups(client: GatewayClient): AsyncGenerator<string, void, undefined> {
  return ofAllPages('groups', (after) => client.groups({ after }));
}

async function* ofAllPages<Item>(
  what: 'files' | 'groups',
  ask: Ask,
): AsyncGenerator<Item, void, undefined> {
  for await (const page of pages(ask, `${what} are missing`)) yield* page[what] as Item[];
}

type Json = Record<string, unknown>;
type Ask = (after: string) => Promise<Json>;

/** Servers that do not answer are named on stderr at the end, and the command fails then. */
async function* pages(ask: Ask, lack: string): AsyncGenerator<Json, void, undefined> {
  const away = new Set<unknown>();
  try {
    for (let after: unknown = ''; typeof after === 'string'; ) {
      const page = await ask(after);
      for (const origin of Array.isArray(page.away) ? page.away : []) away.add(origin);
      yield page;
      after = page.next;
    }
  } finally {
    failIfAway([...away], lack);
  }
}

function failIfAway(away: readonly unknown[], lack: string): void {
  if (away.length === 0) return;
  const origins = away.join(', ');
  process.stderr.write(`${lack}: servers do not answer (origins ${origins}); try again later\n`);
  process.exitCode = EXIT_FAILED;
}

const SIZE_CHARS = 9;

/** A terminal or pipe that accepts nothing more holds the listing up. */
async function write(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain');
}

const removeOptions = {
  ...clientOptions,
  ...flags({ group: option.text('', 'delete all files of this affinity group', { short: 'g' }) }),
};

const REMOVE_HELP = `
Where the gateway has API keys, a group needs one with the scopes "list" and "delete".

Examples:
  stevedore rm KEY KEY
  stevedore rm --group album-7`;

/** Deletes every named file, even if some fail; or a group. */
export function remove(command: Command): void {
  define(command, removeOptions, REMOVE_HELP, (options, ids: string[]) => {
    const { group } = options;
    if ((ids.length === 0) === (group === '')) {
      throw new UsageError('name either files, or a group with --group');
    }
    return withClient(options, (client) =>
      group === '' ? removeEach(client, ids) : removeGroup(client, group),
    );
  });
}

async function removeEach(client: GatewayClient, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    try {
      await client.delete(id);
    } catch (error) {
      process.stderr.write(`${complaint(id, error)}\n`);
      process.exitCode = EXIT_FAILED;
      if (!(error instanceof UsageError) && endsAll(error)) break;
    }
  }
}

async function removeGroup(client: GatewayClient, group: string): Promise<void> {
  let files = 0;
  const ask: Ask = (after) => client.deleteListed({ group, after });
  for await (const { deleted } of pages(ask, 'files are missing')) files += Number(deleted);
  process.stderr.write(`deleted ${countOf(files)}\n`);
}

const flushOptions = {
  ...clientOptions,
  ...flags({
    timeout: option.duration('60s', 'longest wait', { minimum: '1ms', maximum: '1h' }),
  }),
};

const FLUSH_HELP = `
Trunks that are not full stay as they are, so each call may add some to FastDFS. Every gateway of
the deployment does it. Where the gateway has API keys, this needs one with the scope "admin".
Exit code 1 if not all was stored in time, or a gateway does not answer.

Example:
  stevedore put report.pdf && stevedore flush`;

/** Has everything that is staged stored. */
export function flush(command: Command): void {
  define(command, flushOptions, FLUSH_HELP, (options) =>
    withClient(options, async (client) => {
      const { away } = await client.flush(options.timeout);
      failIfAway(Array.isArray(away) ? away : [], 'not all is stored');
    }),
  );
}

export function withClient(
  options: OptionValues<typeof clientOptions>,
  work: (client: GatewayClient, stopped: AbortSignal, atEnd: AtEnd) => Promise<void>,
  connections = 1,
): Promise<void> {
  return interruptible(async (stopped, atEnd) => {
    await using client = new GatewayClient(await withLocalKey(options), connections, stopped);
    await work(client, stopped, atEnd);
  });
}
