// Finds files by group, name, type and time; looks at one, downloads or deletes many.
import { askForKey, isKeyWanted } from './key.js';
import { canPreview, preview } from './preview.js';
import { call, fileUrl, find, handOver } from './transfer.js';
import {
  at,
  button,
  element,
  formatBytes,
  formatMoment,
  plural,
  region,
  sureButton,
  table,
} from './view.js';

const FILES_PER_PAGE = 50;
const DELETIONS_AT_ONCE = 8;

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
  const list = region('Files found', rows(files));
  const goOn = button('Show more', more, { className: 'plain' });
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
  return button(name || key, () => listeners.onLookUp(key), { className: 'link' });
}

/** A button that opens the preview in a row of its own, below the file. */
function previewOf(file) {
  if (!canPreview(file)) return '';
  const doing = element('span', {}, 'Show');
  const name = element('span', { className: 'visually-hidden' }, ` ${file.name || file.key}`);
  const toggle = button(doing);
  toggle.append(name);
  toggle.ariaExpanded = 'false';
  let opened;
  toggle.onclick = () => {
    if (opened) {
      opened.remove();
      opened = undefined;
    } else {
      const row = toggle.closest('tr');
      const cell = element(
        'td',
        { colSpan: row.cells.length },
        preview({ ...file, url: fileUrl(file.key) }),
      );
      opened = element('tr', { className: 'opened' }, cell);
      row.after(opened);
    }
    toggle.ariaExpanded = String(opened !== undefined);
    doing.textContent = opened ? 'Hide' : 'Show';
  };
  return toggle;
}

function toolbar() {
  const { files, filters } = shown;
  const count = selected.size;
  const all = button(count === files.length ? 'Select none' : 'Select all shown', () => {
    if (count === files.length) selected.clear();
    else for (const { key } of files) selected.add(key);
    draw();
  });
  const parts = [all];
  if (count > 0) parts.push(downloadButton(), deleteButton());
  if (filters.group !== undefined) parts.push(zipButton(filters));
  const said = count > 0 ? `${plural(count, 'file')} selected` : plural(files.length, 'file');
  return element('p', { className: 'actions tools' }, ...parts, element('span', {}, said));
}

function downloadButton() {
  const shown = button('Download', () =>
    during(shown, async () => {
      for (const { key, name } of chosen()) await handOver(fileUrl(key), name || key);
    }),
  );
  return shown;
}

function zipButton(filters) {
  const query = new URLSearchParams({ ...filters, format: 'zip' });
  const shown = button('Download all as ZIP', () =>
    during(shown, () => handOver(`files?${query}`, `${filters.group}.zip`)),
  );
  return shown;
}

function deleteButton() {
  const text = `Delete ${plural(selected.size, 'file')}`;
  return sureButton(text, (shown) => during(shown, deleteChosen));
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

async function during(shown, work) {
  shown.disabled = true;
  try {
    await work();
  } catch (error) {
    await fail(error);
  } finally {
    shown.disabled = false;
  }
}

function say(text) {
  at('find-said').textContent = text;
}
