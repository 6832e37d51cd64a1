// The console: asks for the gateway's state while the page is visible, and draws it.
import { drawCharts } from './charts.js';
import { figures } from './figures.js';
import { currentGroup, hideFiles, noteStored, showFolder, startFiles } from './files.js';
import { startFlushing } from './flush.js';
import { askForKey, takeGivenKey } from './key.js';
import { showPermissions } from './permissions.js';
import { cluster, drawAttention, merges, migrations, troubleItem } from './tables.js';
import { setPictureSizes } from './thumbnails.js';
import { get, Refused } from './transfer.js';
import { startUploads } from './uploads.js';
import { at, formatClock, formatDuration } from './view.js';

const VIEWS = ['files', 'diagnostics', 'access'];
const POLL_MS = 2_000;
const LONGEST_POLL_MS = 30_000;
const ANSWER_MS = 10_000;

let pollTimer;
let pollMs = POLL_MS;
let lastAnswerAt;
/** The history that is drawn, and when to ask for it again. */
let shownHistory = { span: 'hour', nextAt: 0 };

async function poll() {
  clearTimeout(pollTimer);
  if (document.hidden) return;
  try {
    const state = await get('console/state', {}, ANSWER_MS);
    lastAnswerAt = Date.now();
    pollMs = POLL_MS;
    draw(state);
    await refreshHistory();
  } catch (error) {
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
      setStatus('warn', 'API key required');
      // Without one there is nothing to ask for; the button asks again.
      if (!(await askForKey(error))) return;
      pollMs = 0;
    } else {
      pollMs = Math.min(Math.max(pollMs, POLL_MS) * 2, LONGEST_POLL_MS);
      const since = lastAnswerAt ? ` since ${formatClock(lastAnswerAt)}` : '';
      setStatus('bad', 'No answer');
      notice(`The gateway has not answered${since}. The data below may be out of date.`);
    }
  }
  clearTimeout(pollTimer);
  pollTimer = setTimeout(poll, pollMs);
}

async function refreshHistory() {
  const asked = shownHistory;
  if (Date.now() < asked.nextAt) return;
  const table = await get('console/history', { span: asked.span }, ANSWER_MS);
  // Another span was asked for meanwhile.
  if (shownHistory !== asked) return;
  asked.nextAt = Date.now() + table.stepMs;
  drawCharts(table, asked.span);
}

function setStatus(state, text) {
  const status = at('status');
  status.dataset.state = state;
  // A screen reader speaks at every change, so only a change is one.
  if (status.textContent !== text) status.textContent = text;
}

function notice(text) {
  const box = at('notice');
  box.hidden = text === '';
  if (box.textContent !== text) box.textContent = text;
}

function draw(state) {
  const { ready, trouble } = state;
  if (ready.ready) setStatus('good', 'Ready');
  else if (ready.accepting) setStatus('warn', 'Accepts uploads; FastDFS is unavailable');
  else setStatus('bad', 'Refuses uploads');
  notice('');
  const where = state.embedded ? 'embedded FastDFS node' : `trackers ${state.trackers.join(', ')}`;
  const up = formatDuration(state.now - state.startedAt);
  at('about').textContent = `Version ${state.version}, ${where}, up for ${up}`;
  drawAttention(state.attention);
  at('findings').hidden = state.attention.length === 0;
  at('findings').textContent = state.attention.length;
  noteStored(state.stats);
  setPictureSizes(state.pictureSizes);
  at('figures').replaceChildren(...figures(state));
  at('merges').replaceChildren(merges(state.merges));
  at('cluster').replaceChildren(cluster(state));
  at('migration-section').hidden = state.migrations.length === 0;
  at('migration').replaceChildren(migrations(state.migrations));
  at('trouble-section').hidden = trouble.length === 0;
  at('trouble').replaceChildren(...[...trouble].reverse().map(troubleItem));
}

/** One view is shown, and the address says which. */
function showView() {
  const [asked] = location.hash.slice(1).split('?');
  const shown = VIEWS.includes(asked) ? asked : VIEWS[0];
  for (const view of VIEWS) {
    at(`view-${view}`).hidden = view !== shown;
    const link = at('views').querySelector(`[href="#${view}"]`);
    if (view === shown) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.body.dataset.view = shown;
  if (shown === 'files') showFolder();
  else hideFiles();
  if (shown === 'access') showPermissions();
}

// Wide tables scroll by themselves, with the arrow keys too.
for (const [id, label] of [
  ['merges', 'Latest merges'],
  ['cluster', 'Storages'],
  ['migration', 'Load and migration'],
]) {
  Object.assign(at(id), { tabIndex: 0, role: 'region', ariaLabel: label });
}

for (const input of document.getElementsByName('span')) {
  input.addEventListener('change', () => {
    shownHistory = { span: input.value, nextAt: 0 };
    poll();
  });
}

takeGivenKey();
startFiles();
startUploads({
  groupOf: currentGroup,
  troubleOf: () => (at('status').dataset.state === 'bad' ? at('status').textContent : ''),
  onStored: poll,
});
startFlushing({ onStored: poll });
addEventListener('hashchange', showView);
showView();
at('enter-key').onclick = poll;
document.addEventListener('visibilitychange', poll);
poll();
