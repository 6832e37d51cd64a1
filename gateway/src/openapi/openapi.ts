import swagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import { version } from '../version.js';
import { schemas } from './schemas.js';

/**
 * The description of the API, made from the schemas of the routes that are registered
 * after this; `/openapi.json` gives it. Routes without one are the page's own and the
 * answers to methods that a path has not.
 */
export function describeApi(app: FastifyInstance): void {
  // The routes check their requests themselves.
  app.setValidatorCompiler(() => () => true);
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
}

function nameOf(json: { readonly $id?: unknown }, index: number): string {
  return typeof json.$id === 'string' ? json.$id : `Schema${index}`;
}

export function openapiRoute(app: FastifyInstance): void {
  let description: string | undefined;
  app.get('/openapi.json', { schema: { hide: true } as never }, async (_, reply) => {
    description ??= JSON.stringify(app.swagger());
    return reply
      .header('content-type', 'application/json; charset=utf-8')
      .header('cache-control', 'no-cache')
      .send(description);
  });
}
