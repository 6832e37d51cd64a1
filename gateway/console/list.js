// Files as tiles or as rows. Only those in sight are elements, so that fifty thousand scroll as fifty
// do. The keyboard moves through the whole list, which alone has the focus.
import { thumbnail } from './thumbnails.js';
import { at, element, formatBytes, formatDay, formatMoment, stateOf } from './view.js';

const ROW_PX = 40;
const TILE_PX = 168;
const TILE_HEIGHT_PX = 178;
/** Rows that are drawn beyond each edge. */
const BEYOND = 3;

const box = at('list');
const space = at('space');
/** Elements in sight, by key. */
const drawn = new Map();

/** `selected` has keys; `active` is the key that the keyboard is at, `anchor` where a range begins. */
export const list = { files: [], mode: 'grid', selected: new Set(), active: undefined };
let anchor;
let hooks = {};
let columns = 1;

/** Hooks: `onOpen(file)`, `onSelected()`, `onSelectAll()`, `onDelete()`, `onNearEnd()`. */
export function startList(given) {
  hooks = given;
  box.addEventListener('scroll', draw, { passive: true });
  new ResizeObserver(() => {
    const before = columns;
    draw();
    // With other columns, the file that was opened would be elsewhere.
    if (columns !== before && activeIndex() !== -1) go(activeIndex(), true);
  }).observe(box);
  space.addEventListener('click', onClick);
  box.addEventListener('keydown', onKey);
}

export function showFiles(files, mode) {
  if (list.mode !== mode) for (const each of drawn.values()) each.remove();
  if (list.mode !== mode) drawn.clear();
  Object.assign(list, { files, mode });
  box.dataset.mode = mode;
  draw();
}

export function chosenFiles() {
  return list.files.filter(({ key }) => list.selected.has(key));
}

export function select(keys) {
  list.selected = new Set(keys);
  draw();
  hooks.onSelected();
}

/** Draws what is in sight. */
export function draw() {
  const isGrid = list.mode === 'grid';
  const height = isGrid ? TILE_HEIGHT_PX : ROW_PX;
  const width = box.clientWidth;
  columns = isGrid ? Math.max(2, Math.floor(width / TILE_PX)) : 1;
  const rows = Math.ceil(list.files.length / columns);
  space.style.height = `${rows * height}px`;
  const first = Math.max(0, Math.floor(box.scrollTop / height) - BEYOND) * columns;
  // Hidden, nothing is in sight.
  const last = width && (Math.ceil((box.scrollTop + box.clientHeight) / height) + BEYOND) * columns;
  const seen = new Set();
  for (let index = first; index < Math.min(last, list.files.length); index += 1) {
    const file = list.files[index];
    seen.add(file.key);
    const shown = drawn.get(file.key) ?? make(file);
    const left = isGrid ? ((index % columns) * width) / columns : 0;
    shown.style.transform = `translate(${left}px, ${Math.floor(index / columns) * height}px)`;
    shown.style.width = `${width / columns}px`;
    shown.dataset.index = index;
    shown.ariaPosInSet = index + 1;
    shown.ariaSetSize = list.files.length;
    shown.ariaSelected = String(list.selected.has(file.key));
    shown.classList.toggle('active', file.key === list.active);
  }
  for (const [key, shown] of drawn) {
    if (seen.has(key)) continue;
    shown.remove();
    drawn.delete(key);
  }
  if (seen.has(list.active)) box.setAttribute('aria-activedescendant', `file-${list.active}`);
  else box.removeAttribute('aria-activedescendant');
  if (width && last >= list.files.length - 200) hooks.onNearEnd();
}

function make(file) {
  const { key, name, size, type, affinityGroup = '', stagedAt, state } = file;
  const shownName = name || key;
  const time = formatMoment(new Date(stagedAt));
  const check = element('span', { className: 'check', 'aria-hidden': 'true' });
  const label = element('span', { className: 'name', title: shownName, dir: 'auto' }, shownName);
  const small = (className, text) => element('span', { className, title: text, dir: 'auto' }, text);
  const parts =
    list.mode === 'grid'
      ? [
          thumbnail(file),
          check,
          label,
          small('about', `${formatBytes(size)}, ${formatDay(new Date(stagedAt))}`),
        ]
      : [
          ...[check, label, small('size', formatBytes(size)), small('type', type)],
          ...[small('group', affinityGroup), small('time', time), small('state', stateOf(state))],
        ];
  const shown = element('div', { role: 'option', id: `file-${key}`, className: 'file' }, ...parts);
  drawn.set(key, shown);
  space.append(shown);
  return shown;
}

function onClick(event) {
  const shown = event.target.closest('.file');
  if (!shown) return;
  const index = Number(shown.dataset.index);
  if (event.shiftKey) selectRange(index, event.ctrlKey || event.metaKey);
  else if (event.ctrlKey || event.metaKey || event.target.closest('.check')) toggle(index);
  else openFile(list.files[index]);
  box.focus({ preventScroll: true });
}

function onKey(event) {
  const { key, ctrlKey, metaKey, shiftKey } = event;
  const from = activeIndex();
  const page = Math.max(1, Math.floor(box.clientHeight / ROW_PX) - 1);
  const target = {
    ArrowDown: from + columns,
    ArrowUp: from - columns,
    ArrowRight: columns > 1 ? from + 1 : undefined,
    ArrowLeft: columns > 1 ? from - 1 : undefined,
    PageDown: from + page,
    PageUp: from - page,
    Home: 0,
    End: list.files.length - 1,
  }[key];
  if (target !== undefined) {
    // The first key of all shows where one is.
    const to = from === -1 ? 0 : Math.min(list.files.length - 1, Math.max(0, target));
    if (shiftKey) selectRange(to);
    else go(to);
  } else if (key === ' ') {
    if (from !== -1) toggle(from);
  } else if (key === 'Enter' && from !== -1) hooks.onOpen(list.files[from]);
  else if (key === 'Escape') select([]);
  else if (key === 'Delete') hooks.onDelete();
  else if (key === 'a' && (ctrlKey || metaKey)) hooks.onSelectAll();
  else return;
  event.preventDefault();
}

function activeIndex() {
  return list.files.findIndex(({ key }) => key === list.active);
}

/** As a click on it. */
export function openFile(file) {
  const index = list.files.indexOf(file);
  go(index);
  select([file.key]);
  hooks.onOpen(file);
}

/** The keyboard is at this file now; it is scrolled into sight. */
function go(index, keepsAnchor = false) {
  list.active = list.files[index].key;
  if (!keepsAnchor) anchor = list.active;
  const height = list.mode === 'grid' ? TILE_HEIGHT_PX : ROW_PX;
  const top = Math.floor(index / columns) * height;
  const lowest = top + height - box.clientHeight;
  if (box.scrollTop > top) box.scrollTop = top;
  else if (box.scrollTop < lowest) box.scrollTop = lowest;
  draw();
}

function toggle(index) {
  const { key } = list.files[index];
  go(index);
  select(
    list.selected.has(key) ? [...list.selected].filter((k) => k !== key) : [...list.selected, key],
  );
}

function selectRange(to, keepsOthers = false) {
  const from = list.files.findIndex(({ key }) => key === anchor);
  const start = from === -1 ? to : from;
  const range = list.files.slice(Math.min(start, to), Math.max(start, to) + 1);
  if (from === -1) anchor = list.files[to].key;
  go(to, true);
  select([...(keepsOthers ? list.selected : []), ...range.map(({ key }) => key)]);
}
