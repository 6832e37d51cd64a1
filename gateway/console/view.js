// Makes elements and texts. Whatever comes from a file or a cluster goes in as text,
// never as markup.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const whole = new Intl.NumberFormat('en');
const clock = new Intl.DateTimeFormat('en', { timeStyle: 'medium', hourCycle: 'h23' });
const day = new Intl.DateTimeFormat('en', { dateStyle: 'medium' });
const moment = new Intl.DateTimeFormat('en', {
  dateStyle: 'medium',
  timeStyle: 'medium',
  hourCycle: 'h23',
});

/** The page's own element of that id. */
export const at = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  const { dataset, ...rest } = properties;
  for (const [key, value] of Object.entries(rest)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  Object.assign(made.dataset, dataset);
  made.append(...children.filter((child) => child !== undefined && child !== null));
  return made;
}

export function formatBytes(bytes) {
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

export const formatNumber = (number) => whole.format(number);
/** A name in a sentence, whose direction it does not change. */
export const quoted = (name) => `“\u2068${name}\u2069”`;
/** `1 file`, `2,000 files`. */
export const plural = (number, noun) => `${formatNumber(number)} ${noun}${number === 1 ? '' : 's'}`;
/** `origins 2, 3` */
export const originsOf = (away) => `${away.length === 1 ? 'origin' : 'origins'} ${away.join(', ')}`;
export const formatClock = (at) => clock.format(at);
export const formatMoment = (at) => moment.format(at);
/** Short: the clock of today, else the day. */
export const formatDay = (at) =>
  at.toDateString() === new Date().toDateString() ? clock.format(at).slice(0, 5) : day.format(at);
export const formatRate = (rate) => (rate >= 10 || rate === 0 ? rate.toFixed(0) : rate.toFixed(1));
export const formatPercent = (share) => {
  const percent = share * 100;
  // What is not quite full must not look full.
  return `${percent >= 100 ? '100' : (Math.floor(percent * 100) / 100).toFixed(percent >= 99 ? 2 : 1)} %`;
};

export function formatDuration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** A small button; `properties` replace its own. */
export function button(text, onclick, properties = {}) {
  return element(
    'button',
    { type: 'button', className: 'plain small', onclick, ...properties },
    text,
  );
}

/** What somebody may type in a terminal. */
export function command(text) {
  return element('p', {}, element('code', { className: 'command' }, text));
}

/** Whether they are sure, in a dialog whose safe answer has the focus. */
export function ask(title, what, how, sure) {
  at('sure-title').textContent = title;
  at('sure-what').textContent = what;
  at('sure-how').textContent = how;
  at('sure').textContent = sure;
  const dialog = at('sure-dialog');
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === 'sure');
  });
}

/** Meanwhile the button does nothing; afterwards it says what went wrong, if anything did. */
export async function during(shown, work) {
  shown.disabled = true;
  try {
    await work();
  } catch ({ message }) {
    shown.after(element('span', { className: 'bad', role: 'alert' }, message));
  } finally {
    shown.disabled = false;
  }
}

/** Shows a dialog whose form `send` sends; it stays, and says so, if that fails. */
export function fillIn(name, send) {
  const dialog = at(`${name}-dialog`);
  const said = at(`${name}-said`);
  said.textContent = '';
  at(`${name}-close`).onclick = () => dialog.close();
  at(`${name}-form`).onsubmit = async (event) => {
    event.preventDefault();
    try {
      await send(dialog);
    } catch ({ message }) {
      said.textContent = message;
    }
  };
  dialog.showModal();
}

/** The buttons of a row: one that changes what it names, and one that takes it away. */
export function changes(name, [change, onChange], [remove, onRemove]) {
  const removing = button(remove, () => during(removing, onRemove), {
    className: 'danger small',
    ariaLabel: `${remove} ${name}`,
  });
  const changing = button(change, onChange, { ariaLabel: `${change} ${name}` });
  return element('span', { className: 'actions' }, changing, removing);
}

/** Where a file is, in words. With its trunk: of a file that was looked up. */
export function stateOf(state, trunk) {
  if (state === 'staged') return 'On disk';
  if (state === 'merged') return 'In FastDFS';
  return trunk ? 'In FastDFS, in a trunk that may still be joined with others' : 'Packing';
}

/** Wide content that scrolls by itself, with the arrow keys too. */
export function region(label, content) {
  const box = element('div', { className: 'scroll', tabIndex: 0, role: 'region' }, content);
  box.ariaLabel = label;
  return box;
}

/** A share of 1 as a bar; the text beside it says the same. */
export function bar(share, state) {
  const inner = element('span');
  inner.style.width = `${Math.min(100, Math.max(0, share * 100))}%`;
  const properties = { className: 'bar', 'aria-hidden': 'true' };
  return element('span', state ? { ...properties, dataset: { state } } : properties, inner);
}

/** Columns are { title, number, cell }. */
export function table(caption, columns, rows) {
  const headings = columns.map(({ title, number }) =>
    element('th', { scope: 'col', className: number ? 'number' : '' }, title),
  );
  const body = rows.map((row) =>
    element(
      'tr',
      {},
      ...columns.map(({ number, className, cell }) =>
        element('td', { className: number ? 'number' : (className ?? '') }, cell(row)),
      ),
    ),
  );
  return element(
    'table',
    {},
    element('caption', { className: 'visually-hidden' }, caption),
    element('thead', {}, element('tr', {}, ...headings)),
    element('tbody', {}, ...body),
  );
}

export function facts(entries) {
  const list = element('dl', { className: 'facts' });
  for (const [term, value] of entries) {
    if (value === undefined || value === '') continue;
    list.append(element('dt', {}, term), element('dd', {}, value));
  }
  return list;
}
