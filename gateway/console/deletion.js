// Deletions: asked for once more, in another place than the button, and sent ten seconds later, so
// that they can be undone. A deletion that was sent is for ever.
import { askForKey, isKeyWanted } from './key.js';
import { call, fileUrl } from './transfer.js';
import { ask, at, button, element, formatBytes, plural, quoted } from './view.js';

const UNDO_MS = 10_000;
/** How long it is said that they are deleted. */
const DONE_MS = 5_000;
const DELETIONS_AT_ONCE = 8;
/** As many a browser sends of a page that is left. */
const MAX_ON_LEAVING = 100;
const MAX_GROUPS_NAMED = 3;

/** Keys of files that are shown no more: to be deleted, or deleted. */
const waiting = new Set();
let pending;
let timer;
let onChange = () => {};

export const isWaiting = (key) => waiting.has(key);

/** `onChange` hears that other files wait for their deletion now. */
export function startDeletion(hooks) {
  onChange = hooks.onChange;
  addEventListener('beforeunload', (event) => {
    if ((pending?.files.length ?? 0) > MAX_ON_LEAVING) event.preventDefault();
  });
  addEventListener('pagehide', () => {
    for (const { key } of pending?.files.slice(0, MAX_ON_LEAVING) ?? []) {
      call(fileUrl(key), { method: 'DELETE', keepalive: true }).catch(() => {});
    }
    pending = undefined;
  });
}

/** Asks, and deletes them ten seconds later. */
export async function removeFiles(files) {
  const [{ name, key }] = files;
  const text = files.length === 1 ? quoted(name || key) : plural(files.length, 'file');
  const isSure = await ask(
    `Delete ${text}?`,
    whatOf(files),
    `You can undo it for ${UNDO_MS / 1000} seconds. Then it is permanent.`,
    files.length === 1 ? 'Delete it' : `Delete ${text}`,
  );
  if (isSure) put(files);
}

/** `48 of the folder album-7, 2 of no folder; 12.3 MiB` */
function whatOf(files) {
  const counts = new Map();
  for (const { affinityGroup: group = '' } of files)
    counts.set(group, (counts.get(group) ?? 0) + 1);
  const where = (group) => (group === '' ? 'in no folder' : `in the folder ${quoted(group)}`);
  const bytes = formatBytes(files.reduce((sum, { size }) => sum + size, 0));
  if (counts.size === 1) {
    const [group] = counts.keys();
    return `${files.length === 1 ? 'It is' : 'All are'} ${where(group)}; ${bytes}.`;
  }
  const named = [...counts]
    .slice(0, MAX_GROUPS_NAMED)
    .map(([group, count]) => `${count} ${where(group)}`);
  const others = counts.size - named.length;
  return `${named.join(', ')}${others > 0 ? `, others in ${plural(others, 'other folder')}` : ''}; ${bytes}.`;
}

function put(files) {
  // What waited before can no longer be undone.
  send();
  for (const { key } of files) waiting.add(key);
  pending = { files, endsAt: Date.now() + UNDO_MS };
  const left = element('span');
  const count = plural(files.length, 'file');
  const leaving =
    files.length > MAX_ON_LEAVING
      ? 'Stay on this page until then.'
      : 'Leaving the page deletes at once.';
  say(
    element('span', {}, `${count} not deleted yet. ${leaving}`),
    button('Undo', undo, { className: 'small' }),
    button('Delete now', send),
    left,
  );
  const tick = () => {
    const ms = pending.endsAt - Date.now();
    left.textContent = `${Math.max(0, Math.ceil(ms / 1000))} s`;
    if (ms <= 0) send();
  };
  timer = setInterval(tick, 250);
  tick();
  onChange();
}

function undo() {
  clearInterval(timer);
  for (const { key } of pending.files) waiting.delete(key);
  pending = undefined;
  say();
  onChange();
}

async function send() {
  if (!pending) return;
  clearInterval(timer);
  const { files } = pending;
  pending = undefined;
  const queue = [...files];
  const gone = new Set();
  let failure;
  const worker = async () => {
    for (let file = queue.pop(); file && !failure; file = queue.pop()) {
      try {
        await call(fileUrl(file.key), { method: 'DELETE' });
      } catch (error) {
        // With 404, somebody else was faster.
        if (error.status !== 404) {
          failure = error;
          break;
        }
      }
      gone.add(file.key);
      if (!pending) say(`Deleting ${gone.size} of ${plural(files.length, 'file')}`);
    }
  };
  await Promise.all(Array.from({ length: DELETIONS_AT_ONCE }, worker));
  for (const { key } of files) if (!gone.has(key)) waiting.delete(key);
  onChange();
  if (pending) return;
  if (!failure) {
    const said = element('span', {}, `${plural(gone.size, 'file')} deleted`);
    say(said);
    setTimeout(() => said.isConnected && say(), DONE_MS);
    return;
  }
  say(
    element(
      'span',
      { className: 'bad' },
      `${gone.size} of ${plural(files.length, 'file')} deleted. ${failure.message}`,
    ),
    button('Close', () => say()),
  );
  if (isKeyWanted(failure)) await askForKey(failure);
}

function say(...parts) {
  at('toast').hidden = parts.length === 0;
  at('toast').replaceChildren(...parts);
}
