// Uploads by hand: files that are chosen or dropped, some at a time, with their progress.
import { askForKey, isKeyWanted } from './key.js';
import { hasKey, upload } from './transfer.js';
import { at, element, formatBytes, formatPercent, plural } from './view.js';

const UPLOADS_AT_ONCE = 3;
const MAX_TRANSFERS_SHOWN = 100;

const waiting = [];
const listeners = { onStored: () => {}, onLookUp: () => {} };
let running = 0;

function add(files) {
  const group = at('group').value.trim();
  for (const file of files) {
    const transfer = { file, group, view: transferView(file), controller: new AbortController() };
    transfer.view.cancel.onclick = () => transfer.controller.abort();
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

async function run({ file, group, view, controller }) {
  const { progress, said, cancel } = view;
  try {
    if (controller.signal.aborted) throw new DOMException('Cancelled.', 'AbortError');
    said.textContent = 'Uploading';
    const receipt = await upload(
      file,
      group,
      (loaded) => {
        progress.value = file.size === 0 ? 1 : loaded / file.size;
        said.textContent = loaded >= file.size ? 'Saving' : formatPercent(loaded / file.size);
      },
      controller.signal,
    );
    showStored(view, receipt);
    say(`${file.name} is stored`);
    listeners.onStored();
  } catch (error) {
    progress.remove();
    cancel.remove();
    said.className = 'bad';
    said.textContent = error.message;
    say(`${file.name}: ${error.message}`);
    if (isKeyWanted(error)) await askForKey(error);
  }
}

function transferView(file) {
  const progress = element('progress', {
    max: 1,
    value: 0,
    'aria-label': `Upload of ${file.name}`,
  });
  const said = element('span', { className: 'hint' }, 'Waiting');
  const cancel = element(
    'button',
    { type: 'button', className: 'plain small', 'aria-label': `Cancel ${file.name}` },
    'Cancel',
  );
  const name = element('span', { className: 'name' }, file.name);
  const head = element(
    'div',
    {},
    name,
    element('span', { className: 'hint' }, formatBytes(file.size)),
  );
  const item = element('li', {}, head, progress, element('div', {}, said, cancel));
  return { item, progress, said, cancel };
}

function showStored({ item, progress, said, cancel }, { key, url }) {
  progress.remove();
  cancel.remove();
  said.className = 'good';
  said.textContent = 'Stored';
  item.append(
    element('div', { className: 'id' }, key),
    element(
      'p',
      { className: 'actions' },
      ...(hasKey()
        ? []
        : [element('a', { href: url, target: '_blank', rel: 'noreferrer' }, 'Open')]),
      copyButton(key),
      element(
        'button',
        { type: 'button', className: 'plain small', onclick: () => listeners.onLookUp(key) },
        'Look up',
      ),
    ),
  );
}

function copyButton(text) {
  const button = element('button', { type: 'button', className: 'plain small' }, 'Copy key');
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
      say('Key copied');
    } catch {
      // Without a secure origin there is no clipboard; the key can still be selected.
      button.textContent = 'Copying failed: select the key';
    }
  };
  return button;
}

function say(text) {
  at('upload-said').textContent = text;
}

/** `onStored` hears of every file that is stored, `onLookUp` which one is to be shown. */
export function startUploads(hooks) {
  Object.assign(listeners, hooks);
  at('files').addEventListener('change', (event) => {
    add([...event.target.files]);
    event.target.value = '';
  });
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
    // A folder has no bytes of its own.
    const items = [...event.dataTransfer.items];
    const files = items.filter((item) => !item.webkitGetAsEntry?.()?.isDirectory);
    add(files.map((item) => item.getAsFile()).filter((file) => file !== null));
  });
  // A file that misses its place must not replace the page.
  for (const name of ['dragover', 'drop']) {
    addEventListener(name, (event) => event.preventDefault());
  }
}
