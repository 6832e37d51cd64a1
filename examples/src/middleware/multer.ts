// Run: npm run multer (in examples/, after `npm start` or `npm test` has built it once)
//
// An app that has multer already: only its storage changes. Try it:  curl -F photo=@photo.jpg localhost:3000/photos
import { open } from '@stevedore/client';
import { download, problems } from '@stevedore/middleware/express';
import { multerStorage } from '@stevedore/middleware/multer';
import express from 'express';
import multer from 'multer';

const store = await open({ directory: process.env.DIRECTORY ?? './stevedore-data' });
const upload = multer({ storage: multerStorage(store, { types: ['image/*'] }) });
const app = express();
app.post('/photos', upload.single('photo'), (request, response) => {
  const { key, size } = request.file!;
  response.status(201).json({ key, url: `/photos/${key}`, size });
});
app.get('/photos/:key', download(store));
app.use(problems(store));
// How long an upload may take; multer itself waits forever.
app.listen(process.env.PORT ?? 3000).requestTimeout = 3_600_000;
