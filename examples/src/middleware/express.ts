// Run: npm run express-upload (in examples/, after `npm start` or `npm test` has built it once)
//
// Express. Files of one page are stored side by side. Try it:  curl -F a=@photo.jpg localhost:3000/photos
import { byPage, open } from '@stevedore/client';
import { download, problems, upload } from '@stevedore/middleware/express';
import express from 'express';

const store = await open({ directory: process.env.DIRECTORY ?? './stevedore-data' });
const policy = { types: ['image/*'], maxFileBytes: 10_000_000, maxFiles: 10, group: byPage() };
const app = express();
app.post('/photos', upload(store, policy), (request, response) => {
  response.status(201).json(request.stored);
});
app.get('/photos/:key', download(store));
app.use(problems(store));
// Node ends each request after five minutes, unless this is 0.
app.listen(process.env.PORT ?? 3000).requestTimeout = 0;
