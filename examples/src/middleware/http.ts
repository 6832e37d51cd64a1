// Run: npm run http (in examples/, after `npm start` or `npm test` has built it once)
//
// Node's own server. Try it:  curl --data-binary @photo.jpg -H 'Content-Type: image/jpeg' localhost:3000/photos
import { createServer } from 'node:http';
import { open } from '@stevedore/client';
import { httpHandler } from '@stevedore/middleware/http';

const store = await open({ directory: process.env.DIRECTORY ?? './stevedore-data' });
const policy = { types: ['image/*'], maxFileBytes: 10_000_000 };
const photos = httpHandler({ store, path: '/photos', policy });
// Node ends each request after five minutes, unless this is 0.
const server = createServer({ requestTimeout: 0 }, (request, response) =>
  photos(request, response),
);
server.listen(process.env.PORT ?? 3000);
