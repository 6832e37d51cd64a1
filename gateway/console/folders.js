// Folders, which are affinity groups, in the order of their names. They are loaded as they come into
// sight. Tab leads to one of them, the arrows to the others.
import { get } from './transfer.js';
import { at, button, element } from './view.js';

const FOLDERS_PER_PAGE = 200;
/** More folders are found by searching. */
const MAX_FOLDERS = 20_000;
/** What is so near will soon be in sight. */
const NEAR_PX = 400;

const box = at('folders');
let addressOf;
/** `after` is undefined at the end, and empty before the first page. */
let asked = { count: 0, after: undefined, names: '' };

/** `addressOf(group)` is where a folder leads. */
export function startFolders(hooks) {
  addressOf = hooks.addressOf;
  box.addEventListener('scroll', loadMore, { passive: true });
  new ResizeObserver(loadMore).observe(box);
  box.addEventListener('keydown', (event) => {
    const { target, key } = event;
    const isNext = key === 'ArrowRight' || key === 'ArrowDown';
    const isPrevious = key === 'ArrowLeft' || key === 'ArrowUp';
    const to = isNext ? target.nextElementSibling : isPrevious && target.previousElementSibling;
    if (!to) return;
    event.preventDefault();
    reach(to);
    to.focus();
  });
}

/** Shows the folders that have the text in their names; none without a text. */
export function showFolders(text) {
  asked = { text, count: 0, after: text === undefined ? undefined : '', names: '' };
  box.scrollTo(0, 0);
  if (text === undefined) show([]);
  else load();
}

/** Those in sight once more: what has come and what has gone. */
export function refreshFolders() {
  const { text, count, names, isLoading } = asked;
  if (text === undefined || isLoading || count > FOLDERS_PER_PAGE) return;
  asked = { text, count: 0, after: '', names };
  load();
}

function loadMore() {
  const right = box.scrollWidth - box.clientWidth - box.scrollLeft;
  const below = box.scrollHeight - box.clientHeight - box.scrollTop;
  if (right < NEAR_PX && below < NEAR_PX) load();
}

async function load() {
  const of = asked;
  if (of.isLoading || of.after === undefined) return;
  of.isLoading = true;
  const { text, after } = of;
  try {
    const page = await get('groups', {
      limit: FOLDERS_PER_PAGE,
      ...(text && { 'name-contains': text }),
      ...(after && { after }),
    });
    // Others were asked for meanwhile.
    if (of !== asked) return;
    if (after === '') showFirst(page.groups);
    else box.append(...page.groups.map(folder));
    of.count += page.groups.length;
    of.after = of.count < MAX_FOLDERS ? page.next : undefined;
  } catch (error) {
    if (of !== asked) return;
    of.after = undefined;
    // The files say which key is wanted.
    if (after === '') show([]);
    if (error.status !== 401) box.append(button('Load the folders again', () => showFolders(text)));
    box.hidden = box.children.length === 0;
  }
  of.isLoading = false;
  // A page may have few folders, or none, although more follow.
  loadMore();
}

/** What is the same stays as it is, with the focus. */
function showFirst(groups) {
  const names = JSON.stringify(groups);
  if (names === asked.names) return;
  asked.names = names;
  const focused = box.contains(document.activeElement) ? document.activeElement.title : undefined;
  show(groups.map(folder));
  const again = [...box.children].find(({ title }) => title === focused);
  if (again) reach(again);
  again?.focus({ preventScroll: true });
}

function show(folders) {
  box.replaceChildren(...folders);
  box.hidden = folders.length === 0;
  if (folders[0]) folders[0].tabIndex = 0;
}

/** Tab leads to this one. */
function reach(folder) {
  for (const other of box.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
  folder.tabIndex = 0;
}

function folder(group) {
  const name = element('span', { className: 'name', dir: 'auto' }, group);
  const href = addressOf(group);
  return element('a', { className: 'folder', href, title: group, tabIndex: -1 }, name);
}
