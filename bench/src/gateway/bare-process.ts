import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { openDatabase } from '@stevedore/disk/sqlite';
import { type FastifyInstance, fastify } from 'fastify';
import { serve } from '../harness/serve.js';
import { type Appended, Appender } from './appender.js';
import {
  FILE_TYPE,
  fileText,
  readBytes,
  type ServerHandlers,
  type Started,
  type StartOptions,
} from './server.js';

/**
 * The least that does the work: Fastify, a file that bodies are appended to in
 * batches and synced, a SQLite row for each, and files held in memory to download.
 * It checks nothing.
 */

let app: FastifyInstance | undefined;
const files = new Map<string, Buffer>();

const handlers: ServerHandlers = {
  async start({ directory }: StartOptions): Promise<Started> {
    await mkdir(directory, { recursive: true });
    const database = openDatabase(join(directory, 'files.sqlite'));
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = NORMAL');
    database.exec(
      'CREATE TABLE files (key TEXT PRIMARY KEY, name TEXT, position INTEGER, size INTEGER) WITHOUT ROWID',
    );
    const insert = database.prepare('INSERT INTO files VALUES (?, ?, ?, ?)');
    const commit = database.transaction((batch: readonly Appended[]) => {
      for (const { key, name, position, body } of batch) {
        insert.run(key, name, position, body.length);
      }
    });
    const appender = await Appender.open(join(directory, 'bodies'), commit);
    app = fastify({ logger: false });
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_, body, done) => done(null, body));
    app.post('/files', async (request, reply) => {
      const name = String(request.headers['x-filename']);
      const key = await appender.add(request.body as Buffer, name);
      return reply.code(201).header('location', `/files/${key}`).send({ key });
    });
    app.get('/files/:key', (request, reply) => {
      const bytes = files.get((request.params as { key: string }).key);
      if (!bytes) return reply.code(404).send();
      return reply.header('content-type', FILE_TYPE).header('etag', '"x"').send(bytes);
    });
    const port = Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port);
    return { port, headers: {} };
  },
  store: async (count) =>
    Array.from({ length: count }, () => {
      const key = randomBytes(16).toString('base64url');
      const number = files.size;
      files.set(key, Buffer.from(fileText(number)));
      return { path: `/files/${key}`, number };
    }),
  readBytes,
};

serve(handlers, async () => app?.close());
