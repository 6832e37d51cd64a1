import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { openDatabase, type SqliteDatabase } from '@stevedore/disk/sqlite';
import { type FastifyInstance, fastify } from 'fastify';
import { serve } from '../harness/serve.js';
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

interface Waiting {
  readonly body: Buffer;
  readonly name: string;
  readonly resolve: (key: string) => void;
  readonly reject: (error: unknown) => void;
}

class Appender {
  readonly #file: FileHandle;
  readonly #commit: (rows: readonly unknown[][]) => void;
  #at = 0;
  #waiting: Waiting[] = [];
  #writing = false;

  constructor(file: FileHandle, database: SqliteDatabase) {
    this.#file = file;
    const insert = database.prepare('INSERT INTO files VALUES (?, ?, ?, ?)');
    this.#commit = database.transaction((rows: readonly unknown[][]) => {
      for (const row of rows) insert.run(...row);
    });
  }

  add(body: Buffer, name: string): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ body, name, resolve, reject });
      if (!this.#writing) void this.#write();
    });
  }

  async #write(): Promise<void> {
    this.#writing = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, 500);
      try {
        await this.#file.writev(batch.map(({ body }) => body));
        await this.#file.datasync();
        const keys = batch.map(() => randomBytes(16).toString('base64url'));
        this.#commit(
          batch.map(({ body, name }, index) => {
            const row = [keys[index], name, this.#at, body.length];
            this.#at += body.length;
            return row;
          }),
        );
        for (const [index, { resolve }] of batch.entries()) resolve(keys[index]!);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#writing = false;
  }
}

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
    const appender = new Appender(await open(join(directory, 'bodies'), 'a'), database);
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
