// Uploads by hand: of thousands of files, one bar for all. Small files go several to a request; every
// other one resumes after a lost connection and, when it is chosen again, after a reload of the page.
import { askForKey, isKeyWanted } from './key.js';
import { droppedFiles, upload } from './lib/index.js';
import { authorization, call, urlOf } from './transfer.js';
import {
  at,
  button,
  element,
  formatBytes,
  formatDuration,
  formatNumber,
  plural,
  quoted,
} from './view.js';

/** A browser has six connections to a host; two are left to look at files meanwhile. */
const REQUESTS_AT_ONCE = 4;
const SMALL_BYTES = 256 * 2 ** 10;
/** A form takes a hundred files; small ones show progress more often. */
const FORM_FILES = 64;
const FORM_BYTES = 2 ** 20;
/** About five minutes, as others are tried. */
const FORM_ATTEMPTS = 14;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;
const DRAW_MS = 250;
const RATE_MS = 5_000;
const MAX_FAILED_SHOWN = 50;

const NOTHING = { files: 0, bytes: 0, stored: 0, storedBytes: 0, isPaused: false, isOver: true };
/** Of all files since the last time that nothing was left to do. */
let all = { ...NOTHING };
let waiting = [];
const running = new Set();
let failed = [];
/** What was stored by then: [time, files, bytes]. */
let samples = [];
let drawing;
let hooks = {};

/**
 * Hooks: `groupOf()` is the folder of new uploads, `troubleOf()` says why they do not go on, if so,
 * `onStored()` hears of stored files.
 */
export function startUploads(given) {
  hooks = given;
  for (const name of ['files', 'folder']) {
    const input = at(name);
    at(`choose-${name}`).onclick = () => input.click();
    input.addEventListener('change', () => {
      add([...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
      input.value = '';
    });
  }
  startDrop();
  addEventListener('beforeunload', (event) => {
    if (running.size > 0) event.preventDefault();
  });
}

function startDrop() {
  let depth = 0;
  const over = (change, event) => {
    if (!event.dataTransfer.types.includes('Files')) return;
    depth = Math.max(0, depth + change);
    at('drop').hidden = depth === 0;
    const group = hooks.groupOf();
    at('drop-text').textContent =
      group === '' ? 'Drop to upload' : `Drop to upload to ${quoted(group)}`;
  };
  addEventListener('dragenter', (event) => over(1, event));
  addEventListener('dragleave', (event) => over(-1, event));
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => {
    event.preventDefault();
    depth = 0;
    at('drop').hidden = true;
    droppedFiles(event.dataTransfer).then(add, ({ message }) => say(message));
  });
}

/** `files` are { file, path }. */
function add(files) {
  if (files.length === 0) return;
  if (running.size === 0 && waiting.length === 0 && failed.length === 0) all = { ...NOTHING };
  const group = hooks.groupOf();
  all.files += files.length;
  for (const { file, path } of files) {
    all.bytes += file.size;
    waiting.push({ file, path, group });
  }
  say(`${plural(files.length, 'file')} to upload`);
  begin();
}

function begin() {
  all.isOver = false;
  samples = [];
  drawing ??= setInterval(draw, DRAW_MS);
  next();
  draw();
}

function next() {
  while (running.size < REQUESTS_AT_ONCE && waiting.length > 0 && !all.isPaused) {
    const files = take();
    const task = { files, sentBytes: 0, aborting: new AbortController() };
    running.add(task);
    run(task).finally(() => {
      running.delete(task);
      next();
    });
  }
  if (running.size > 0 || waiting.length > 0 || all.isOver) return;
  all.isOver = true;
  clearInterval(drawing);
  drawing = undefined;
  draw();
  say(
    failed.length === 0
      ? `${plural(all.stored, 'file')} stored`
      : `${plural(failed.length, 'file')} failed`,
  );
}

/** The next file, and small ones of its folder that follow it. */
function take() {
  const first = waiting.shift();
  const files = [first];
  if (!isSmall(first)) return files;
  let bytes = first.file.size;
  while (files.length < FORM_FILES && waiting.length > 0) {
    const [each] = waiting;
    bytes += each.file.size;
    if (!isSmall(each) || each.group !== first.group || bytes > FORM_BYTES) break;
    files.push(waiting.shift());
  }
  return files;
}

function isSmall({ file, isAlone }) {
  return !isAlone && file.size <= SMALL_BYTES;
}

async function run(task) {
  const { files } = task;
  try {
    if (files.length > 1) await sendForm(task);
    else await sendOne(task);
    all.stored += files.length;
    all.storedBytes += files.reduce((sum, { file }) => sum + file.size, 0);
    hooks.onStored();
  } catch (error) {
    if (task.isCancelled) return;
    if (files.length > 1 && error.status >= 400 && error.status !== 401) {
      // One of them is to blame, and the others are not.
      for (const file of files) waiting.unshift({ ...file, isAlone: true });
      return;
    }
    const message =
      error.name === 'NotFoundError' ? 'It is no longer on this disk.' : error.message;
    for (const file of files) failed.push({ ...file, message });
    if (isKeyWanted(error)) await askForKey(error);
  }
}

async function sendOne(task) {
  const [{ file, path, group }] = task.files;
  task.sending = upload(file, {
    endpoint: urlOf('uploads'),
    name: path,
    headers: authorization(),
    ...(group === '' ? {} : { group }),
    onProgress: (sent) => {
      task.sentBytes = sent;
    },
  });
  await task.sending.done;
}

/** Repeated with the same mark, the gateway stores them once. */
async function sendForm({ files, aborting: { signal } }) {
  const form = new FormData();
  for (const { file, path } of files) form.append('file', file, path);
  form.append('group', files[0].group);
  const headers = {
    'idempotency-key': crypto.getRandomValues(new Uint32Array(4)).join('-'),
    // Without it, files of no folder would get one of their own.
    'x-affinity-group': '',
  };
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call('files', { method: 'POST', body: form, headers, signal });
    } catch (error) {
      const { status = 500, retryAfterMs = 0 } = error;
      const mayPass = status >= 500 || status === 429 || status === 409 || status === 408;
      if (!mayPass || attempt === FORM_ATTEMPTS || signal.aborted) throw error;
      const pauseMs = Math.max(retryAfterMs, FIRST_PAUSE_MS * 2 ** attempt);
      await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs, MAX_PAUSE_MS)));
    }
  }
}

function retry(files) {
  failed = failed.filter((each) => !files.includes(each));
  waiting.push(...files.map(({ message: _, ...file }) => file));
  begin();
}

function cancelAll() {
  all.files -= waiting.length;
  waiting = [];
  for (const task of running) {
    task.isCancelled = true;
    all.files -= task.files.length;
    task.aborting.abort();
    task.sending?.abort();
  }
  say('Uploads cancelled');
}

function pause() {
  all.isPaused = !all.isPaused;
  for (const { sending } of running) {
    if (all.isPaused) sending?.pause();
    else sending?.resume();
  }
  begin();
}

function close() {
  failed = [];
  all = { ...NOTHING };
  draw();
}

function draw() {
  const box = at('uploads');
  const hadFocus = box.contains(document.activeElement) ? document.activeElement.textContent : '';
  box.hidden = all.files === 0 && failed.length === 0;
  if (box.hidden) return;
  const sent = [...running].reduce((sum, { sentBytes }) => sum + sentBytes, all.storedBytes);
  const share = all.bytes === 0 ? all.stored / Math.max(1, all.files) : sent / all.bytes;
  const progress = element('progress', { max: 1, value: all.isOver ? 1 : Math.min(1, share) });
  progress.ariaLabel = 'All uploads';
  const tools = all.isOver
    ? [button('Close', close)]
    : [button(all.isPaused ? 'Resume' : 'Pause', pause), button('Cancel all', cancelAll)];
  if (failed.length > 0) tools.unshift(button('Retry failed', () => retry(failed)));
  const more = failed.length - MAX_FAILED_SHOWN;
  box.replaceChildren(
    element(
      'div',
      { className: 'uploads-head' },
      element('strong', {}, headline()),
      element('span', { className: 'actions' }, ...tools),
    ),
    ...(all.isOver ? [] : [progress, element('p', { className: 'hint' }, pace(sent))]),
    element(
      'ul',
      { className: 'transfers' },
      ...failed.slice(0, MAX_FAILED_SHOWN).map(failedItem),
      ...(more > 0
        ? [element('li', { className: 'bad' }, `and ${formatNumber(more)} more failed`)]
        : []),
      ...[...running].map(runningItem),
    ),
  );
  // Drawn anew, a button keeps the focus that it had.
  if (hadFocus !== '')
    [...box.querySelectorAll('button')]
      .find(({ textContent }) => textContent === hadFocus)
      ?.focus();
}

function headline() {
  const some = failed.length > 0 ? `, ${formatNumber(failed.length)} failed` : '';
  if (all.isOver) return `${plural(all.stored, 'file')} stored${some}`;
  return `${formatNumber(all.stored)} of ${plural(all.files, 'file')} stored${some}`;
}

/** Bytes, rates of the last seconds, and the time left. */
function pace(sent) {
  const now = performance.now();
  samples.push([now, all.stored, sent]);
  while (samples.length > 2 && samples[0][0] < now - RATE_MS) samples.shift();
  const [then, files, bytes] = samples[0];
  const bytesOf = `${formatBytes(sent)} of ${formatBytes(all.bytes)}`;
  if (all.isPaused) return `${bytesOf}, paused`;
  const trouble = hooks.troubleOf();
  if (trouble !== '') return `${bytesOf}. ${trouble}: uploads wait, and continue by themselves.`;
  const seconds = (now - then) / 1000;
  if (seconds < 1) return bytesOf;
  const fileRate = (all.stored - files) / seconds;
  const byteRate = (sent - bytes) / seconds;
  const left = Math.max(
    all.bytes > sent ? (all.bytes - sent) / byteRate : 0,
    fileRate > 0 ? (all.files - all.stored - failed.length) / fileRate : 0,
  );
  const time = Number.isFinite(left) ? `, ${formatDuration(Math.ceil(left) * 1000)} left` : '';
  return `${bytesOf}, ${plural(Math.round(fileRate), 'file')} and ${formatBytes(byteRate)} a second${time}`;
}

function failedItem(each) {
  const again = button('Retry', () => retry([each]));
  again.ariaLabel = `Retry ${each.path}`;
  const said = element('span', { className: 'bad' }, each.message);
  return element('li', {}, nameOf(each.path), again, said);
}

function runningItem({ files, sentBytes }) {
  const [{ path, file }] = files;
  const text =
    files.length === 1 ? path : `${path} and ${plural(files.length - 1, 'small file')} more`;
  const of = files.length === 1 ? `${formatBytes(sentBytes)} of ${formatBytes(file.size)}` : '';
  return element('li', {}, nameOf(text), element('span', { className: 'hint' }, of));
}

const nameOf = (text) => element('span', { className: 'name', dir: 'auto' }, text);

function say(text) {
  at('upload-said').textContent = text;
}
