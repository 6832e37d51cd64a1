// Finds files by group, name, type and time; looks at one, downloads or deletes many.
import { askForKey, isKeyWanted } from './key.js';
import { canPreview, preview } from './preview.js';
import { call, fetchFile, fileUrl, find } from './transfer.js';
import { at, element, formatBytes, formatMoment, plural, table } from './view.js';

const FILES_PER_PAGE = 50;
const DELETIONS_AT_ONCE = 8;
/** How long the bytes of a download stay for the browser to take them. */
const HAND_OVER_MS = 30_000;

const listeners = { onLookUp: () => {}, onDeleted: () => {} };
/**
 * What is shown: the filters, the files in their order, where the next page begins, and the origins
 * of servers that did not answer.
 */
let shown = { filters: {}, files: [], next: undefined, away: [] };
const selected = new Set();

/** `onLookUp` hears which file is to be shown, `onDeleted` that some were deleted. */
export function startFinding(hooks) {
  Object.assign(listeners, hooks);
  at('find').addEventListener('submit', (event) => {
    event.preventDefault();
    const since = at('find-since').value;
    const filters = {
      group: at('find-group').value.trim(),
      'name-prefix': at('find-prefix').value,
      type: at('find-type').value.trim(),
      // The date is one of this place.
      since: since === '' ? '' : new Date(`${since}T00:00`).toISOString(),
    };
    const given = Object.entries(filters).filter(([, text]) => text);
    shown = { filters: Object.fromEntries(given), files: [], next: undefined, away: [] };
    selected.clear();
    more();
  });
}

async function more() {
  const asked = shown;
  try {
    const after = asked.next === undefined ? {} : { after: asked.next };
    const page = await find({ ...asked.filters, limit: FILES_PER_PAGE, ...after });
    // Other files were asked for meanwhile, or the same page twice.
    if (shown !== asked) return;
    const files = [...asked.files, ...page.files];
    const away = [...new Set([...asked.away, ...(page.away ?? [])])];
    shown = { ...asked, files, next: page.next, away };
    draw();
    say(
      shown.files.length === 0 ? 'No file matches' : `${plural(shown.files.length, 'file')} found`,
    );
  } catch (error) {
    fail(error);
  }
}

async function fail(error) {
  const results = at('find-results');
  results.querySelector('[role="alert"]')?.remove();
  results.prepend(element('p', { className: 'bad', role: 'alert' }, error.message));
  if (isKeyWanted(error)) await askForKey(error);
}

function draw() {
  const { files, next } = shown;
  if (files.length === 0 && next === undefined) {
    const nothing = element('p', { className: 'empty' }, 'No file matches.');
    at('find-results').replaceChildren(...missing(), nothing);
    return;
  }
  const list = element('div', { className: 'scroll', tabIndex: 0, role: 'region' }, rows(files));
  list.ariaLabel = 'Files found';
  const goOn = element('button', { type: 'button', className: 'plain' }, 'Show more');
  goOn.onclick = more;
  const below = next === undefined ? [list] : [list, goOn];
  at('find-results').replaceChildren(...missing(), toolbar(), ...below);
}

/** Says so if servers of the deployment did not answer. */
function missing() {
  const { away } = shown;
  if (away.length === 0) return [];
  const origins = `${away.length === 1 ? 'origin' : 'origins'} ${away.join(', ')}`;
  const text = `Files are missing: ${plural(away.length, 'server')} did not answer (${origins}).`;
  return [element('p', { className: 'bad', role: 'status' }, text)];
}

function rows(files) {
  return table(
    'Files found',
    [
      { title: 'Select', cell: selection },
      { title: 'Name', className: 'wide', cell: nameOf },
      { title: 'Preview', cell: previewOf },
      { title: 'Size', number: true, cell: ({ size }) => formatBytes(size) },
      { title: 'Type', cell: ({ type }) => type },
      { title: 'Group', cell: ({ affinityGroup }) => affinityGroup ?? '' },
      { title: 'Uploaded', cell: ({ stagedAt }) => formatMoment(new Date(stagedAt)) },
      { title: 'State', cell: ({ state }) => state },
    ],
    files,
  );
}

function selection({ key, name }) {
  const box = element('input', {
    type: 'checkbox',
    checked: selected.has(key),
    ariaLabel: `Select ${name || key}`,
  });
  box.onchange = () => {
    if (box.checked) selected.add(key);
    else selected.delete(key);
    at('find-results').querySelector('.tools')?.replaceWith(toolbar());
  };
  return box;
}

function nameOf({ key, name }) {
  const button = element('button', { type: 'button', className: 'link' }, name || key);
  button.onclick = () => listeners.onLookUp(key);
  return button;
}

/** A button that opens the preview in a row of its own, below the file. */
function previewOf(file) {
  if (!canPreview(file)) return '';
  const doing = element('span', {}, 'Show');
  const name = element('span', { className: 'visually-hidden' }, ` ${file.name || file.key}`);
  const button = element('button', { type: 'button', className: 'plain small' }, doing, name);
  button.ariaExpanded = 'false';
  let opened;
  button.onclick = () => {
    if (opened) {
      opened.remove();
      opened = undefined;
    } else {
      const row = button.closest('tr');
      const cell = element(
        'td',
        { colSpan: row.cells.length },
        preview({ ...file, url: fileUrl(file.key) }),
      );
      opened = element('tr', { className: 'opened' }, cell);
      row.after(opened);
    }
    button.ariaExpanded = String(opened !== undefined);
    doing.textContent = opened ? 'Hide' : 'Show';
  };
  return button;
}

function toolbar() {
  const { files, filters } = shown;
  const count = selected.size;
  const all = element(
    'button',
    { type: 'button', className: 'plain small' },
    count === files.length ? 'Select none' : 'Select all shown',
  );
  all.onclick = () => {
    if (count === files.length) selected.clear();
    else for (const { key } of files) selected.add(key);
    draw();
  };
  const parts = [all];
  if (count > 0) parts.push(downloadButton(), deleteButton());
  if (filters.group !== undefined) parts.push(zipButton(filters));
  const said = count > 0 ? `${plural(count, 'file')} selected` : plural(files.length, 'file');
  return element('p', { className: 'actions tools' }, ...parts, element('span', {}, said));
}

function downloadButton() {
  const button = element('button', { type: 'button', className: 'plain small' }, 'Download');
  button.onclick = () =>
    during(button, async () => {
      for (const { key, name } of chosen()) await handOver(fileUrl(key), name || key);
    });
  return button;
}

function zipButton(filters) {
  const text = 'Download all as ZIP';
  const button = element('button', { type: 'button', className: 'plain small' }, text);
  const query = new URLSearchParams({ ...filters, format: 'zip' });
  button.onclick = () => during(button, () => handOver(`files?${query}`, `${filters.group}.zip`));
  return button;
}

async function handOver(url, name) {
  const link = element('a', { href: await fetchFile(url), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), HAND_OVER_MS);
}

function deleteButton() {
  const text = `Delete ${plural(selected.size, 'file')}`;
  const button = element('button', { type: 'button', className: 'danger small' }, text);
  button.onclick = () => {
    if (button.dataset.sure === undefined) {
      button.dataset.sure = '';
      button.textContent = `${text} permanently?`;
      return;
    }
    during(button, deleteChosen);
  };
  button.onblur = () => {
    delete button.dataset.sure;
    if (!button.disabled) button.textContent = text;
  };
  return button;
}

async function deleteChosen() {
  const queue = chosen();
  const gone = new Set();
  let failure;
  const worker = async () => {
    for (let file = queue.pop(); file !== undefined && !failure; file = queue.pop()) {
      try {
        await call(fileUrl(file.key), { method: 'DELETE' });
        gone.add(file.key);
      } catch (error) {
        // Somebody else was faster.
        if (error.status === 404) gone.add(file.key);
        else failure = error;
      }
    }
  };
  await Promise.all(Array.from({ length: DELETIONS_AT_ONCE }, worker));
  shown = { ...shown, files: shown.files.filter(({ key }) => !gone.has(key)) };
  for (const key of gone) selected.delete(key);
  draw();
  say(`${plural(gone.size, 'file')} deleted`);
  listeners.onDeleted();
  if (failure) throw failure;
}

function chosen() {
  return shown.files.filter(({ key }) => selected.has(key));
}

async function during(button, work) {
  button.disabled = true;
  try {
    await work();
  } catch (error) {
    await fail(error);
  } finally {
    button.disabled = false;
  }
}

function say(text) {
  at('find-said').textContent = text;
}
