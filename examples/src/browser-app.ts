// Run: npm run browser (in examples/, after `npm start` or `npm test` has built it once)
//
// Two pages that upload into one Express app: / with @stevedore/browser, /uppy with Uppy. Drop a
// folder on either, cut the network, reload: uploads go on where they were.
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { open } from '@stevedore/client';
import { files } from '@stevedore/middleware/express';
import express from 'express';

const OWN_PAGE = `<!doctype html>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Uploads</title>
<style>
  body { font: 16px/1.5 system-ui; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }
  #zone { border: 2px dashed #777; border-radius: .5rem; padding: 2rem; text-align: center; }
  progress { width: 100%; }
</style>
<h1>Uploads</h1>
<p id="zone">Drop files or folders here, or <input type="file" multiple aria-label="Files"></p>
<p><progress value="0"></progress> <button type="button" disabled>Pause</button></p>
<ul></ul>
<script type="module">
  import { droppedFiles, uploadAll } from '/lib/index.js';

  const [zone, input, bar, button, list] = ['#zone', 'input', 'progress', 'button', 'ul'].map(
    (name) => document.querySelector(name),
  );
  const line = (text, href) => {
    const link = list.appendChild(document.createElement('li')).appendChild(document.createElement('a'));
    link.textContent = text;
    if (href) link.href = href;
  };
  const send = async (files) => {
    const all = uploadAll(files, {
      endpoint: '/files',
      onStored: (file, { url }) => line(file.name, url),
      onFailed: (file, error) => line(file.name + ': ' + error.message),
      onProgress: ({ sentBytes, totalBytes }) => { bar.value = sentBytes / totalBytes; },
    });
    button.disabled = false;
    button.onclick = () => {
      if (all.isPaused) all.resume();
      else all.pause();
      button.textContent = all.isPaused ? 'Resume' : 'Pause';
    };
    await all.done;
    button.disabled = true;
  };
  input.onchange = () => send(input.files);
  zone.ondragover = (event) => event.preventDefault();
  zone.ondrop = async (event) => {
    event.preventDefault();
    send(await droppedFiles(event.dataTransfer));
  };
</script>`;

const UPPY = 'https://releases.transloadit.com/uppy/v6.0.1/uppy.min';
const UPPY_PAGE = `<!doctype html>
<meta charset="utf-8">
<title>Uppy</title>
<link rel="stylesheet" href="${UPPY}.css">
<div id="uppy"></div>
<script type="module">
  import { Dashboard, Tus, Uppy } from '${UPPY}.mjs';

  new Uppy().use(Dashboard, { inline: true, target: '#uppy' }).use(Tus, { endpoint: '/files' });
</script>`;

const store = await open({ directory: process.env.DIRECTORY ?? './stevedore-data' });
const app = express();
app.get('/', (_request, response) => void response.type('html').send(OWN_PAGE));
app.get('/uppy', (_request, response) => void response.type('html').send(UPPY_PAGE));
app.use('/lib', express.static(dirname(fileURLToPath(import.meta.resolve('@stevedore/browser')))));
app.use(files({ store, policy: { maxFileBytes: 1_000_000_000 } }));
// Node ends each request after five minutes, unless this is 0.
app.listen(Number(process.env.PORT ?? 3000)).requestTimeout = 0;
