import { createServer } from 'node:http';
import { type FileStore, open } from '@stevedore/client';
import { files, upload } from '@stevedore/middleware/express';
import { httpHandler } from '@stevedore/middleware/http';
import { multerStorage } from '@stevedore/middleware/multer';
import express, { type Express, type RequestHandler } from 'express';
import multer from 'multer';
import { afterAll, expect, onTestFinished, test, vi } from 'vitest';
import { serving } from '../../support/serving.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/** An app learns at its first upload that Node would end the long ones, unless it has chosen a time. */

const store = await open({ directory: temporaryFolder(ofSuite) });
afterAll(() => store.close());

const routes: readonly (readonly [string, (store: FileStore) => RequestHandler])[] = [
  ['httpHandler', (store) => httpHandler({ store }) as unknown as RequestHandler],
  ['express, upload', (store) => upload(store) as unknown as RequestHandler],
  ['express, files', (store) => files({ store }) as unknown as RequestHandler],
  ['multer', (store) => multer({ storage: multerStorage(store) }).any()],
];

/** Uploads of all kinds; resolves with the codes of the warnings that they cause. */
async function warningsOf(app: Express, options: object): Promise<unknown> {
  const warn = vi.spyOn(process, 'emitWarning').mockReturnValue();
  onTestFinished(() => warn.mockRestore());
  const url = await serving(createServer(options, app));
  for (let turn = 0; turn < 2; turn += 1) {
    const body = new FormData();
    body.append('file', new File(['text'], 'a.txt'));
    await (await fetch(`${url}/files`, { method: 'POST', body })).text();
    const headers = { 'tus-resumable': '1.0.0', 'upload-length': '1' };
    await (await fetch(`${url}/files`, { method: 'POST', headers })).text();
  }
  const codes = warn.mock.calls.map(([, how]) => how);
  warn.mockRestore();
  return codes;
}

test.each(routes)('%s', async (_, make) => {
  const app = express();
  app.use(make(store), (_request, response) => void response.end());
  expect(await warningsOf(app, {})).toEqual([{ code: 'STEVEDORE_REQUEST_TIMEOUT' }]);
  expect(await warningsOf(app, { requestTimeout: 0 })).toEqual([]);
  expect(await warningsOf(app, { requestTimeout: 3_600_000 })).toEqual([]);
});
