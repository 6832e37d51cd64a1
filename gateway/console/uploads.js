// Uploads by hand: files and folders that are chosen or dropped, some at a time, with their
// progress. They resume after a lost connection and, when the same file is chosen again, after a
// reload of the page.
import { askForKey, isKeyWanted } from './key.js';
import { droppedFiles, upload } from './lib/index.js';
import { authorization, fileUrl, hasKey, urlOf } from './transfer.js';
import { at, button, element, formatBytes, formatPercent, plural } from './view.js';

const UPLOADS_AT_ONCE = 3;
const MAX_TRANSFERS_SHOWN = 100;

const waiting = [];
const listeners = { onStored: () => {}, onLookUp: () => {} };
let running = 0;

/** `files` are { file, path }. */
function add(files) {
  const group = at('group').value.trim();
  for (const { file, path } of files) {
    const transfer = { file, path, group, view: transferView(file, path), isCancelled: false };
    transfer.view.cancel.onclick = () => {
      transfer.isCancelled = true;
      transfer.sending?.abort();
    };
    at('transfers').prepend(transfer.view.item);
    waiting.push(transfer);
  }
  while (at('transfers').children.length > MAX_TRANSFERS_SHOWN) at('transfers').lastChild.remove();
  if (files.length > 0) say(`${plural(files.length, 'file')} to upload`);
  next();
}

function next() {
  while (running < UPLOADS_AT_ONCE && waiting.length > 0) {
    running += 1;
    run(waiting.shift()).finally(() => {
      running -= 1;
      next();
    });
  }
}

async function run(transfer) {
  const { file, path, group, view } = transfer;
  const { progress, said, cancel, pause } = view;
  try {
    if (transfer.isCancelled) throw new Error('Cancelled.');
    said.textContent = 'Uploading';
    const sending = upload(file, {
      endpoint: urlOf('uploads'),
      name: path,
      headers: authorization(),
      ...(group === '' ? {} : { group }),
      onProgress: (sent, all) => {
        progress.value = all === 0 ? 1 : sent / all;
        if (!transfer.sending?.isPaused) {
          said.textContent = sent >= all ? 'Saving' : formatPercent(sent / all);
        }
      },
    });
    transfer.sending = sending;
    pause.hidden = false;
    pause.onclick = () => {
      if (sending.isPaused) sending.resume();
      else sending.pause();
      pause.textContent = sending.isPaused ? 'Resume' : 'Pause';
      said.textContent = sending.isPaused ? 'Paused' : 'Uploading';
    };
    showStored(view, await sending.done);
    say(`${path} is stored`);
    listeners.onStored();
  } catch (error) {
    for (const part of [progress, cancel, pause]) part.remove();
    said.className = 'bad';
    said.textContent = transfer.isCancelled ? 'Cancelled.' : error.message;
    say(`${path}: ${said.textContent}`);
    if (isKeyWanted(error)) await askForKey(error);
  }
}

function transferView(file, path) {
  const progress = element('progress', {
    max: 1,
    value: 0,
    'aria-label': `Upload of ${path}`,
  });
  const said = element('span', { className: 'hint' }, 'Waiting');
  const cancel = button('Cancel', undefined, { 'aria-label': `Cancel ${path}` });
  const pause = button('Pause', undefined, { hidden: true });
  const name = element('span', { className: 'name' }, path);
  const head = element(
    'div',
    {},
    name,
    element('span', { className: 'hint' }, formatBytes(file.size)),
  );
  const item = element('li', {}, head, progress, element('div', {}, said, pause, cancel));
  return { item, progress, said, pause, cancel };
}

function showStored({ item, progress, said, pause, cancel }, { key }) {
  for (const part of [progress, cancel, pause]) part.remove();
  said.className = 'good';
  said.textContent = 'Stored';
  item.append(
    element('div', { className: 'id' }, key),
    element(
      'p',
      { className: 'actions' },
      ...(hasKey()
        ? []
        : [element('a', { href: fileUrl(key), target: '_blank', rel: 'noreferrer' }, 'Open')]),
      copyButton(key),
      button('Look up', () => listeners.onLookUp(key)),
    ),
  );
}

function copyButton(text) {
  const shown = button('Copy key', async () => {
    try {
      await navigator.clipboard.writeText(text);
      shown.textContent = 'Copied';
      say('Key copied');
    } catch {
      // Without a secure origin there is no clipboard; the key can still be selected.
      shown.textContent = 'Copying failed: select the key';
    }
  });
  return shown;
}

function say(text) {
  at('upload-said').textContent = text;
}

/** `onStored` hears of every file that is stored, `onLookUp` which one is to be shown. */
export function startUploads(hooks) {
  Object.assign(listeners, hooks);
  for (const input of [at('files'), at('folder')]) {
    input.addEventListener('change', () => {
      add([...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
      input.value = '';
    });
  }
  startDrop(at('drop'));
}

function startDrop(drop) {
  let depth = 0;
  drop.addEventListener('dragenter', () => {
    depth += 1;
    drop.dataset.over = '';
  });
  drop.addEventListener('dragleave', () => {
    depth -= 1;
    if (depth === 0) delete drop.dataset.over;
  });
  drop.addEventListener('drop', (event) => {
    depth = 0;
    delete drop.dataset.over;
    droppedFiles(event.dataTransfer).then(add, (error) => say(error.message));
  });
  // A file that misses its place must not replace the page.
  for (const name of ['dragover', 'drop']) {
    addEventListener(name, (event) => event.preventDefault());
  }
}
