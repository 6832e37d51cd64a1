// Run: npm run express (in examples/, after `npm start` or `npm test` has built it once)
//
// An express app that keeps its users' uploads in FastDFS. Try it:
//   curl --data-binary @photo.jpg -H 'Content-Type: image/jpeg' 'localhost:3000/photos?name=photo.jpg'
import { isStoreError, open } from '@stevedore/client';
import express, { type ErrorRequestHandler } from 'express';

const port = Number(process.env.PORT ?? 3000);
const store = await open({ directory: process.env.DIRECTORY ?? './stevedore-data' });
store.on('error', (error) => console.error(error.message));

const app = express();

app.post('/photos', async (request, response) => {
  // The request is the body: it is never held in memory whole.
  const { key, size } = await store.put(request, {
    name: String(request.query.name ?? ''),
    type: request.get('content-type') ?? 'application/octet-stream',
    maxBytes: 10_000_000,
  });
  // The key is all an app keeps; it stays valid before and after merging.
  response.status(201).json({ url: `/photos/${key}`, size });
});

app.get('/photos/:key', async (request, response) => {
  const file = await store.get(request.params.key);
  response.set({
    'Content-Type': file.type,
    'Content-Length': String(file.size),
    'X-Content-Type-Options': 'nosniff',
    'Content-Disposition': 'attachment',
    ETag: file.etag,
  });
  file
    .stream()
    .on('error', (error) => response.destroy(error))
    .pipe(response);
});

app.delete('/photos/:key', async (request, response) => {
  await store.delete(request.params.key);
  response.status(204).end();
});

const STATUS: Readonly<Record<string, number>> = {
  not_found: 404,
  invalid_id: 404,
  too_large: 413,
  container_full: 507,
};
const onError: ErrorRequestHandler = (error, _request, response, next) => {
  if (!isStoreError(error) || response.headersSent) return next(error);
  response.status(STATUS[error.code] ?? 500).json({ code: error.code, message: error.message });
};
app.use(onError);

const server = app.listen(port, '127.0.0.1', () => {
  const address = server.address() as { port: number };
  console.log(`ready http://127.0.0.1:${address.port}/photos`);
});
// Node ends each request after five minutes, unless this is 0.
server.requestTimeout = 0;

// What is acknowledged stays staged; the next start goes on with it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    server.close(() => void store.close());
    server.closeIdleConnections();
  });
}
