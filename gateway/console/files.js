// The files: newest first, in folders, which are affinity groups. The address has what is asked for,
// so that the browser's Back leads to the folder before.
import { isWaiting, removeFiles, startDeletion } from './deletion.js';
import { closeDetails, showDetails, shownKey, startDetails } from './details.js';
import { refreshFolders, showFolders, startFolders } from './folders.js';
import { askForKey } from './key.js';
import { chosenFiles, draw, list, select, showFiles, startList } from './list.js';
import { fileUrl, get, handOver } from './transfer.js';
import {
  at,
  button,
  during,
  element,
  formatBytes,
  formatNumber,
  originsOf,
  plural,
} from './view.js';
import { canView, startViewer, view } from './viewer.js';

const FIRST_PAGE = 200;
const FILES_PER_PAGE = 1_000;
/** More files are found by narrowing the search. */
const MAX_FILES = 100_000;
const TYPING_MS = 300;
const DAY_MS = 86_400_000;
const MODE = 'stevedore-mode';
const FILTERS = ['group', 'name', 'type', 'since', 'until'];

const byName = new Intl.Collator('en', { numeric: true }).compare;
const nameOf = ({ name, key }) => name || key;
/** Orders that the gateway does not know, of what is loaded. */
const SORTS = {
  name: (a, b) => byName(nameOf(a), nameOf(b)),
  '-name': (a, b) => byName(nameOf(b), nameOf(a)),
  size: (a, b) => a.size - b.size,
  '-size': (a, b) => b.size - a.size,
};
const HEADS = [
  ['Name', 'name', '-name'],
  ['Size', '-size', 'size'],
  ['Type'],
  ['Folder'],
  ['Uploaded', 'newest', 'oldest'],
  ['State'],
];

/** What is asked for, and what has come of it, in the gateway's order. */
let asked = { filters: {}, files: [], next: undefined, away: [], isComplete: false };
let isLoading = false;
let isShown = false;
/** Of the gateway: uploads since its start, and files that it has. */
let storedFiles;
let allFiles = 0;

export function startFiles() {
  startList({
    onOpen: open,
    onSelected: drawChosen,
    onSelectAll: selectAll,
    onDelete: deleteChosen,
    onNearEnd: loadMore,
  });
  startViewer({ onNearEnd: loadMore });
  startDetails({ onDelete: (file) => removeFiles([file]), onClosed: () => at('list').focus() });
  startDeletion({
    onChange: () => {
      drawFiles();
      refreshFolders();
    },
  });
  startFolders({ addressOf: (group) => addressOf({ group }) });
  const mode = localStorage.getItem(MODE) ?? 'grid';
  for (const input of document.getElementsByName('mode')) {
    input.checked = input.value === mode;
    input.onchange = () => {
      localStorage.setItem(MODE, input.value);
      drawFiles();
    };
  }
  at('sort').onchange = begin;
  startSearch();
  startFolderDialog();
}

function startSearch() {
  let timer;
  const search = () => {
    clearTimeout(timer);
    const filters = {
      ...asked.filters,
      name: at('find').value.trim(),
      type: at('find-type').value,
      since: at('find-since').value,
      until: at('find-until').value,
    };
    history.replaceState(null, '', addressOf(filters));
    showFolder();
  };
  at('search').onsubmit = (event) => {
    event.preventDefault();
    const id = idIn(at('find').value.trim());
    if (id === undefined) search();
    else showDetails(id);
  };
  at('find').oninput = () => {
    clearTimeout(timer);
    if (idIn(at('find').value.trim()) === undefined) timer = setTimeout(search, TYPING_MS);
  };
  for (const id of ['find-type', 'find-since', 'find-until']) at(id).onchange = search;
  at('narrow').onclick = () => {
    const isOpen = at('filters').toggleAttribute('data-open');
    at('narrow').ariaExpanded = String(isOpen);
  };
}

/** A key, a FastDFS id, or the URL of either. */
function idIn(text) {
  const path = text
    .replace(/^https?:\/\/[^/]+\/(?:.*?(?=files\/|group\d))?/, '')
    .replace(/^\/?files\//, '');
  const id = path.replace(/[?#].*$/, '').replace(/^\//, '');
  return /^[\w-]{21}[AQgw]$|^[A-Za-z0-9]{1,16}\/M[0-9A-F]{2}\/./.test(id) ? id : undefined;
}

function startFolderDialog() {
  const dialog = at('folder-dialog');
  at('new-folder').onclick = () => {
    at('folder-name').value = '';
    dialog.returnValue = '';
    dialog.showModal();
  };
  at('folder-cancel').onclick = () => dialog.close('');
  dialog.onclose = () => {
    const group = at('folder-name').value.trim();
    if (dialog.returnValue === 'open' && group !== '') location.hash = addressOf({ group });
  };
}

function addressOf(filters) {
  const given = Object.entries(filters).filter(([, text]) => text);
  return given.length === 0 ? '#files' : `#files?${new URLSearchParams(given)}`;
}

/** The folder that the address names, and where uploads go; empty: none. */
export function currentGroup() {
  return asked.filters.group ?? '';
}

/** Shows what the address asks for. */
export function showFolder() {
  isShown = true;
  const given = new URLSearchParams(location.hash.split('?')[1]);
  const filters = {};
  for (const name of FILTERS) if (given.get(name)) filters[name] = given.get(name);
  const { name = '', type = '', since = '', until = '' } = filters;
  if (at('find').value.trim() !== name) at('find').value = name;
  at('find-type').value = type;
  at('find-since').value = since;
  at('find-until').value = until;
  const isSame = JSON.stringify(filters) === JSON.stringify(asked.filters) && asked.isComplete;
  asked.filters = filters;
  if (isSame) refresh();
  else begin();
}

export function hideFiles() {
  isShown = false;
}

function begin() {
  asked = { filters: asked.filters, files: [], next: undefined, away: [], isComplete: false };
  isLoading = false;
  at('list').scrollTop = 0;
  select([]);
  drawFiles();
  load();
  // A folder has no date and no type, and none is in another.
  const { name = '', ...others } = asked.filters;
  showFolders(Object.keys(others).length === 0 ? name : undefined);
}

function query() {
  const { name, since, until, ...filters } = asked.filters;
  // The dates are days of this place; the last one is one of them.
  const day = (text, more) => new Date(new Date(`${text}T00:00`).getTime() + more).toISOString();
  return {
    ...filters,
    ...(name && { 'name-contains': name }),
    ...(since && { since: day(since, 0) }),
    ...(until && { until: day(until, DAY_MS) }),
    order: at('sort').value === 'oldest' ? 'oldest' : 'newest',
  };
}

async function load() {
  if (isLoading) return;
  isLoading = true;
  const of = asked;
  try {
    const isFirst = of.next === undefined;
    const limit = isFirst ? FIRST_PAGE : FILES_PER_PAGE;
    const page = await get('files', { ...query(), limit, ...(isFirst ? {} : { after: of.next }) });
    // Others were asked for meanwhile.
    if (of !== asked) return;
    of.files.push(...page.files);
    of.next = of.files.length < MAX_FILES ? page.next : undefined;
    of.away = [...new Set([...of.away, ...(page.away ?? [])])];
    of.isComplete = true;
  } catch (error) {
    if (of !== asked) return;
    of.error = error;
    of.next = undefined;
  }
  isLoading = false;
  drawFiles();
}

/** A page may have few files, or none, although more follow. */
function loadMore() {
  if (asked.next !== undefined) load();
}

async function loadAll() {
  while (asked.next !== undefined) await load();
}

/** The newest files once more: those that have come go before the others. */
async function refresh() {
  refreshFolders();
  if (isLoading || asked.error || query().order !== 'newest') return;
  const of = asked;
  const page = await get('files', { ...query(), limit: FIRST_PAGE }).catch(() => undefined);
  if (!page || of !== asked) return;
  const newest = new Map(page.files.map((file) => [file.key, file]));
  const known = of.files.findIndex(({ key }) => newest.has(key));
  if (known === -1 && page.next !== undefined) {
    Object.assign(of, { files: page.files, next: page.next });
    return drawFiles();
  }
  const isKnown = new Set(of.files.map(({ key }) => key));
  const come = page.files.filter(({ key }) => !isKnown.has(key));
  of.files = [...come, ...of.files.map((file) => newest.get(file.key) ?? file)];
  drawFiles();
}

/** What is new is shown to whoever looks at the top. */
export function noteStored({ acknowledgedFiles, stagedFiles, mergedFiles }) {
  const isNew = storedFiles !== undefined && acknowledgedFiles !== storedFiles;
  storedFiles = acknowledgedFiles;
  const isOther = allFiles !== stagedFiles + mergedFiles;
  allFiles = stagedFiles + mergedFiles;
  if (isOther && asked.next !== undefined) drawFiles();
  if (isNew && isShown && at('list').scrollTop < 100) refresh();
}

function drawFiles() {
  const { files, error, isComplete } = asked;
  const mode = document.querySelector('[name="mode"]:checked')?.value ?? 'grid';
  const sort = SORTS[at('sort').value];
  const shown = files.filter(({ key }) => !isWaiting(key));
  if (sort) shown.sort(sort);
  const nothing = shown.length === 0;
  at('list').hidden = nothing;
  at('nothing').hidden = !nothing;
  at('heads').hidden = nothing || mode !== 'table';
  drawPath(shown);
  drawHeads();
  drawFoot(shown);
  if (nothing) at('nothing').replaceChildren(...whyNothing(error, isComplete));
  showFiles(shown, mode);
  drawChosen();
  const key = shownKey();
  if (key && isWaiting(key)) closeDetails();
}

function whyNothing(error, isComplete) {
  if (error) {
    const said = element('p', { className: 'bad', role: 'alert' }, error.message);
    if (error.status !== 401) return [said, button('Try again', begin)];
    const ask = async () => (await askForKey(error)) && begin();
    return [said, button('Enter a key', ask)];
  }
  if (!isComplete || asked.next !== undefined) return ['Looking for files'];
  const { group, ...others } = asked.filters;
  if (Object.keys(others).length > 0) return ['No file matches.'];
  return [group ? 'This folder has no files. Drop some here.' : 'No files yet. Drop some here.'];
}

/** While the list goes on, of how many, if the gateway knows that. */
function countOf(shown) {
  const count = plural(shown.length, 'file');
  if (asked.next === undefined) return count;
  const isAll = Object.keys(asked.filters).length === 0 && asked.away.length === 0;
  return isAll && allFiles > shown.length
    ? `${formatNumber(shown.length)} of ${plural(allFiles, 'file')} loaded`
    : `${count} loaded, there are more`;
}

function drawPath(shown) {
  const { group, ...others } = asked.filters;
  const text = countOf(shown);
  const all = element('a', { href: '#files' }, 'All files');
  const parts = group
    ? [all, ' / ', element('strong', { dir: 'auto' }, group)]
    : [element('strong', {}, 'All files')];
  at('path').replaceChildren(
    ...parts,
    element('span', { className: 'hint' }, asked.isComplete ? text : ''),
  );
  const filters = Object.keys(others).filter((name) => name !== 'name').length;
  at('narrow').textContent = filters === 0 ? 'Filters' : `Filters (${filters})`;
  at('folder-actions').replaceChildren(...(group && shown.length > 0 ? [zipButton(group)] : []));
  if (asked.isComplete && at('files-said').textContent !== text)
    at('files-said').textContent = text;
  at('missing').hidden = asked.away.length === 0;
  at('missing').textContent = missing(asked.away);
}

/** Of servers of the deployment that did not answer. */
function missing(away) {
  return `Files are missing: ${plural(away.length, 'server')} did not answer (${originsOf(away)}).`;
}

function zipButton(group) {
  const { order: _, ...filters } = query();
  const shown = button('Download as ZIP', () =>
    during(shown, () =>
      handOver(`files?${new URLSearchParams({ ...filters, format: 'zip' })}`, `${group}.zip`),
    ),
  );
  return shown;
}

function drawHeads() {
  const now = at('sort').value;
  at('heads').replaceChildren(
    element('span'),
    ...HEADS.map(([title, ...orders]) => {
      if (orders.length === 0) return element('span', {}, title);
      const [next] = orders.filter((order) => order !== now);
      const is = orders.includes(now);
      const arrow = !is ? '' : ['name', 'size', 'oldest'].includes(now) ? ' \u2191' : ' \u2193';
      const sort = () => {
        at('sort').value = is ? next : orders[0];
        begin();
      };
      return button(title + arrow, sort, { className: 'head' });
    }),
  );
}

/** An order of some of the files must not look like one of all. */
function drawFoot(shown) {
  const isPartial = SORTS[at('sort').value] !== undefined && asked.next !== undefined;
  const isCut = asked.files.length >= MAX_FILES;
  at('foot').hidden = !isPartial && !isCut;
  if (isCut)
    at('foot').textContent =
      `The first ${formatNumber(MAX_FILES)} files are shown. Search to find others.`;
  else if (isPartial) {
    const load = button('Load all', () => during(load, loadAll));
    const text = `Ordered among the ${plural(shown.length, 'newest file')} that are loaded. `;
    at('foot').replaceChildren(text, load);
  }
}

function drawChosen() {
  const files = list.selected.size === 0 ? [] : chosenFiles();
  at('chosen').hidden = files.length === 0;
  at('path-line').hidden = files.length > 0;
  if (files.length === 0) return;
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  const download = button('Download', () =>
    during(download, async () => {
      for (const { key, name } of files) await handOver(fileUrl(key), name || key);
    }),
  );
  const selectingAll = button('Select all', () => during(selectingAll, selectAll));
  at('chosen').replaceChildren(
    element('strong', {}, `${plural(files.length, 'file')} selected, ${formatBytes(bytes)}`),
    download,
    button('Delete', deleteChosen, { className: 'danger small' }),
    selectingAll,
    button('Select none', () => select([])),
  );
}

/** Also those that are not loaded yet: a number of files must not look like all of them. */
async function selectAll() {
  await loadAll();
  select(list.files.map(({ key }) => key));
}

function deleteChosen() {
  const files = chosenFiles();
  if (files.length > 0) removeFiles(files);
}

/** Once more, a picture fills the window. */
function open(file) {
  if (shownKey() === file.key && canView(file)) view(file);
  else showDetails(file.key, file);
  draw();
}
