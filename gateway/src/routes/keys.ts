import { asStoreError } from '@stevedore/client/internal';
import { ProblemError } from '@stevedore/middleware/core';
import {
  fromFile,
  type OptionTable,
  type OptionValues,
  parseOptions,
  type RawOptions,
} from '@stevedore/options';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import { type ApiKey, keyFacts, keyOptions, makeApiKey } from '../access/api-keys.js';
import { route } from '../http/route.js';

/**
 * `POST /keys`, `PATCH /keys/ID` and `DELETE /keys/ID`: API keys are made, limited and revoked by
 * one with the scope `admin`, as by `stevedore keys`. The query has what is said of the key.
 */

const MAX_NAME_CHARS = 200;

export function keyRoutes(app: FastifyInstance, access: Access): void {
  route(app, '/keys', {
    POST: async (request, reply) => {
      const asked = request as AskedBy;
      const { keys } = await access.administer(asked);
      const { name } = asked.query;
      if (typeof name !== 'string' || name.trim() === '' || name.length > MAX_NAME_CHARS) {
        throw new ProblemError('bad_request', 'The parameter name names the new key.');
      }
      const now = new Date();
      const made = makeApiKey({ name: name.trim(), ...factsOf(asked, now) }, now);
      await writable(keys.file.path, () => keys.change((known) => [...known, made.key]));
      return answer(reply, 201, { ...shown(made.key), key: made.text });
    },
  });
  route(app, '/keys/:id', {
    PATCH: async (request, reply) => {
      const asked = request as AskedBy;
      const { keys } = await access.administer(asked);
      const {
        expiresAt: _,
        requestsPerSecond: __,
        bytesPerDay: ___,
        ...kept
      } = keyOf(keys, request);
      const { scopes, ...limits } = factsOf(asked, new Date());
      const isScoped = Boolean(asked.query.scopes);
      const changed: ApiKey = { ...kept, ...(isScoped ? { scopes } : {}), ...limits };
      await writable(keys.file.path, () =>
        keys.change((known) => known.map((key) => (key.id === kept.id ? changed : key))),
      );
      return answer(reply, 200, shown(changed));
    },
    DELETE: async (request, reply) => {
      const { keys, by } = await access.administer(request as AskedBy);
      const { id } = keyOf(keys, request);
      if (id === by.id) {
        const message = 'A key cannot revoke itself: use another, or stevedore keys revoke.';
        throw new ProblemError('forbidden', message);
      }
      await writable(keys.file.path, () =>
        keys.change((known) => known.filter((key) => key.id !== id)),
      );
      return reply.code(204).send();
    },
  });
}

function factsOf({ query }: AskedBy, now: Date): ReturnType<typeof keyFacts> {
  return keyFacts(optionsIn(query, keyOptions).read, now);
}

/**
 * Options that the parameters of a query give, as they were written and as they were read. One that
 * is missing or empty is not given. Throws `invalid_option`.
 */
export function optionsIn<Table extends OptionTable>(
  query: AskedBy['query'],
  table: Table,
): { readonly written: RawOptions; readonly read: OptionValues<Table> } {
  const written: Record<string, unknown> = {};
  for (const [name, { kind }] of Object.entries(table)) {
    // `max-file-size` for `maxFileSize`.
    const value = query[name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)];
    if (value === undefined || value === '') continue;
    const items = () => String(value).split(',');
    written[name] = kind === 'list' ? items().map((each) => each.trim()) : value;
  }
  const source = fromFile('the request', written);
  return { written, read: asStoreError(() => parseOptions(table, [source])) };
}

function keyOf(keys: { list(): readonly ApiKey[] }, { params }: FastifyRequest): ApiKey {
  const { id } = params as { readonly id: string };
  const found = keys.list().find((key) => key.id === id);
  if (found) return found;
  throw new ProblemError('route_not_found', 'There is no API key of that id.');
}

/** The file may be mounted read-only, come from a secret store, or be gone. */
export async function writable(path: string, change: () => Promise<void>): Promise<void> {
  try {
    await change();
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!['EACCES', 'EPERM', 'EROFS', 'EBUSY', 'ENOENT'].includes(code)) throw error;
    const message = `The gateway cannot write ${path} (${code}): change it where it comes from.`;
    throw new ProblemError('forbidden', message);
  }
}

/** Without the hash of the secret. */
function shown({ hash: _, ...key }: ApiKey): Omit<ApiKey, 'hash'> {
  return key;
}

function answer(reply: FastifyReply, status: number, body: object): FastifyReply {
  return reply.code(status).header('cache-control', 'no-store').send(body);
}
