import type { Flushed, GroupPage, Readiness } from '@stevedore/client';
import {
  type DeletedJson,
  type ProblemBody,
  problemCodes,
  type ReceiptJson,
} from '@stevedore/middleware/core';
import { type FastifyInstance, fastify, type RouteOptions } from 'fastify';
import { version } from '../program.js';

/** Schemas only describe the API: to compile them would take a sixth of a start. */
export const COMPILE_NOTHING: object = {
  compilersFactory: {
    buildValidator: () => () => () => true,
    buildSerializer: () => () => JSON.stringify,
  },
};

/**
 * The description of the API, generated from the schemas of the routes that the app registers after
 * this; `/openapi.json` serves it. Routes without a schema belong to the console, or refuse methods
 * that a path does not have.
 */
export function describeApi(app: FastifyInstance): () => Promise<object> {
  const routes: RouteOptions[] = [];
  app.addHook('onRoute', ({ method, url, schema, handler }) => {
    if (schema && !('hide' in schema)) routes.push({ method, url, schema, handler });
  });
  let description: Promise<object> | undefined;
  return () => {
    description ??= descriptionOf(routes);
    return description;
  };
}

/** Of an app that answers nothing, and only when it is asked for: a start need not load all this. */
async function descriptionOf(routes: readonly RouteOptions[]): Promise<object> {
  const { default: swagger } = await import('@fastify/swagger');
  const app = fastify({ exposeHeadRoutes: false, schemaController: COMPILE_NOTHING });
  for (const schema of schemas) app.addSchema(schema);
  app.register(swagger, {
    exposeHeadRoutes: true,
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Stevedore',
        version: version(),
        description: 'Small files, acknowledged once they are safe, kept in FastDFS.',
      },
      tags: [{ name: 'files' }, { name: 'watching' }],
      components: {
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer', description: 'an API key' },
          apiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
          signedUrl: {
            type: 'apiKey',
            in: 'query',
            name: 'signature',
            description: 'of a signed URL, with `expires` and all its other parameters',
          },
        },
      },
    },
    refResolver: { buildLocalReference: (json, _baseUri, _fragment, index) => nameOf(json, index) },
  });
  app.register(async (scope) => {
    for (const route of routes) scope.route(route);
  });
  await app.ready();
  return app.swagger();
}

function nameOf(json: { readonly $id?: unknown }, index: number): string {
  return typeof json.$id === 'string' ? json.$id : `Schema${index}`;
}

export function openapiRoute(app: FastifyInstance, describe: () => Promise<object>): void {
  app.get('/openapi.json', { schema: { hide: true } as never }, async ({ publicBase }, reply) => {
    const servers = [{ url: publicBase || '/' }];
    return reply
      .header('content-type', 'application/json; charset=utf-8')
      .header('cache-control', 'no-cache')
      .send(JSON.stringify({ ...(await describe()), servers }));
  });
}

/**
 * The JSON of the gateway's answers, for the description. Each schema names every property of its
 * type: the compiler checks that.
 */

type Schema = Readonly<Record<string, unknown>>;
type PropertiesOf<Value> = { readonly [Name in keyof Required<Value>]: Schema };

/** Schema of an object with these properties; all but those in `optional` are required. */
function objectOf<Value>(
  id: string,
  properties: PropertiesOf<Value>,
  ...optional: (keyof Value)[]
) {
  const names = Object.keys(properties) as (keyof Value)[];
  const required = names.filter((name) => !optional.includes(name));
  return { $id: id, type: 'object', properties, required, additionalProperties: false } as const;
}

const text = { type: 'string' };
const time = { type: 'string', format: 'date-time' };
const away = {
  type: 'array',
  items: { type: 'integer', minimum: 1, maximum: 65_535 },
  description: 'origins of servers that could not be asked',
};

const receipt: PropertiesOf<ReceiptJson> = {
  key: {
    ...text,
    pattern: '^([A-Za-z0-9_-]{22})?$',
    description: 'who has it can read the file; empty where only a FastDFS id is known',
  },
  url: {
    ...text,
    description: 'a path, or a whole URL where the gateway knows its public address',
  },
  name: { ...text, description: "the client's name for the file; may be empty" },
  size: { type: 'integer', minimum: 0 },
  type: { ...text, description: 'media type' },
  crc32: { ...text, pattern: '^[0-9a-f]{8}$' },
  state: { ...text, enum: ['staged', 'packing', 'merged'] },
  stagedAt: time,
  expiresAt: { ...time, description: 'absent for a file without an end' },
  affinityGroup: text,
  pictureOf: { ...text, description: 'of a derived file: the key of the file it was made of' },
  fileId: { ...text, description: 'FastDFS id, once the file is merged' },
  idPending: {
    type: 'object',
    description: 'why an existing file has no `fileId` yet',
    properties: {
      reason: { ...text, enum: ['waiting', 'sending', 'joining', 'retrying', 'damaged'] },
      by: { ...time, description: 'when it has its id at the latest; absent if nobody knows' },
    },
    required: ['reason'],
    additionalProperties: false,
  },
};

const schemas: readonly Schema[] = [
  objectOf<ReceiptJson>(
    'Receipt',
    receipt,
    ...(['expiresAt', 'affinityGroup', 'pictureOf', 'fileId', 'idPending'] as const),
  ),
  objectOf<DeletedJson>('DeletedPart', {
    state: { ...text, enum: ['deleted'], description: 'of an upload sent again: deleted since' },
  }),
  objectOf<ProblemBody>('Problem', {
    type: { ...text, enum: ['about:blank'] },
    title: text,
    status: { type: 'integer', minimum: 400, maximum: 599 },
    detail: { ...text, description: 'for people' },
    code: { ...text, enum: [...problemCodes()].sort(), description: 'for programs; stable' },
  }),
  objectOf<Readiness>('Readiness', {
    ready: { type: 'boolean' },
    accepting: { type: 'boolean', description: 'uploads are taken' },
    trackerReachable: { type: 'boolean' },
    problems: { type: 'array', items: text, description: 'what stands in the way, for people' },
  }),
  objectOf<{ files: ReceiptJson[]; next: string; away: number[] }>(
    'Page',
    {
      files: { type: 'array', items: { $ref: 'Receipt#' } },
      next: { ...text, description: 'where the listing goes on; absent at its end' },
      away,
    },
    'next',
    'away',
  ),
  objectOf<GroupPage>(
    'Groups',
    {
      groups: { type: 'array', items: text },
      next: { ...text, description: 'where the listing goes on; absent at its end' },
      away,
    },
    'next',
    'away',
  ),
  objectOf<Flushed>('Flushed', { away }, 'away'),
  objectOf<{ deleted: number; next: string; away: number[] }>(
    'Deleted',
    {
      deleted: { type: 'integer', minimum: 0 },
      next: { ...text, description: 'present if there may be more' },
      away,
    },
    'next',
    'away',
  ),
  objectOf<{ live: boolean }>('Liveness', { live: { type: 'boolean' } }),
];
