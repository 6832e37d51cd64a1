// The console: asks for the gateway's state while the page is visible, and draws it.
import { call, fetchFile, fileUrl, hasKey, lookUp, Refused, setKey, upload } from './transfer.js';
import {
  bar,
  chart,
  element,
  facts,
  formatBytes,
  formatClock,
  formatDuration,
  formatMoment,
  formatNumber,
  formatPercent,
  formatRate,
  plural,
  table,
  tile,
} from './view.js';

const POLL_MS = 2_000;
const LONGEST_POLL_MS = 30_000;
const SPAN_MS = 600_000;
const UPLOADS_AT_ONCE = 3;
const MAX_TRANSFERS_SHOWN = 100;
const MERGES_SHOWN = 12;

const at = (id) => document.getElementById(id);

// --- what there is now ----------------------------------------------------------------

let pollTimer;
let pollMs = POLL_MS;
let lastAnswerAt;

async function poll() {
  clearTimeout(pollTimer);
  if (document.hidden) return;
  try {
    const state = await (await call('/console/state')).json();
    lastAnswerAt = Date.now();
    pollMs = POLL_MS;
    draw(state);
  } catch (error) {
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
      setStatus('warn', 'A key is needed');
      // Without one there is nothing to ask for; the button asks again.
      if (!(await askForKey(error))) return;
      pollMs = 0;
    } else {
      pollMs = Math.min(Math.max(pollMs, POLL_MS) * 2, LONGEST_POLL_MS);
      const since = lastAnswerAt ? `; it did at ${formatClock(lastAnswerAt)}` : '';
      setStatus('bad', 'No answer');
      notice(`The gateway does not answer${since}. What is shown may be old.`);
    }
  }
  clearTimeout(pollTimer);
  pollTimer = setTimeout(poll, pollMs);
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
  const { ready, stats, trouble } = state;
  if (ready.ready) setStatus('good', 'Ready');
  else if (ready.accepting) setStatus('warn', 'Takes uploads, FastDFS is away');
  else setStatus('bad', 'Takes no uploads');
  notice(ready.problems.join('. '));
  const where = state.embedded ? 'embedded FastDFS node' : `trackers ${state.trackers.join(', ')}`;
  const up = formatDuration(state.now - state.startedAt);
  at('about').textContent = `Version ${state.version}, ${where}, up for ${up}`;
  at('tiles').replaceChildren(...tiles(state, stats));
  at('charts').replaceChildren(...charts(state));
  at('merges').replaceChildren(merges(state.merges));
  at('cluster').replaceChildren(cluster(state));
  at('migration-section').hidden = state.migrations.length === 0;
  at('migration').replaceChildren(migrations(state.migrations));
  at('trouble-section').hidden = trouble.length === 0;
  at('trouble').replaceChildren(...[...trouble].reverse().map(troubleItem));
}

function tiles(state, stats) {
  const { room, cache, connections } = stats;
  const used = room.limitBytes === 0 ? 0 : room.usedBytes / room.limitBytes;
  const asked = cache.hits + cache.misses;
  const sending = stats.trunksInFlight + stats.largeFilesInFlight;
  const rates = ratesOf(state.samples).at(-1);
  return [
    tile(
      'Staged',
      formatBytes(stats.stagedBytes),
      `${plural(stats.stagedFiles, 'file')}, on this disk only`,
    ),
    tile(
      'In FastDFS',
      formatBytes(stats.mergedBytes),
      `${plural(stats.mergedFiles, 'file')} in ${plural(stats.trunks, 'trunk')}`,
    ),
    tile(
      'Container',
      formatPercent(used),
      `${formatBytes(room.usedBytes)} of ${formatBytes(room.limitBytes)}; ${formatBytes(room.freeBytes)} free on the disk`,
      bar(used, room.full ? 'bad' : used > 0.8 ? 'warn' : undefined),
    ),
    tile(
      'On the way',
      formatNumber(sending),
      `trunks and large files; ${formatNumber(stats.sendRetries)} retries`,
    ),
    tile(
      'Uploads',
      `${formatRate(rates?.uploads ?? 0)} /s`,
      `${plural(stats.acknowledgedFiles, 'file')}, ${formatBytes(stats.acknowledgedBytes)} since the start`,
    ),
    tile(
      'Reads',
      `${formatRate(rates?.reads ?? 0)} /s`,
      `${formatNumber(stats.reads)} since the start`,
    ),
    tile(
      'Cache hits',
      asked === 0 ? 'none yet' : formatPercent(cache.hits / asked),
      `of ${formatNumber(asked)} reads from FastDFS; ${formatBytes(cache.bytes)} kept`,
    ),
    copies(stats),
    tile(
      'Connections',
      formatNumber(connections.open),
      `to FastDFS, ${formatNumber(connections.idle)} idle, ${formatNumber(connections.queued)} calls wait`,
    ),
  ];
}

/** What is known of copies whose bytes are not those that were stored. */
function copies({ damage, orphans }) {
  const { found, repaired, quarantined } = damage;
  const value = quarantined === 0 ? 'sound' : `${formatNumber(quarantined)} damaged`;
  const shown = quarantined === 0 ? value : element('span', { className: 'bad' }, value);
  const more = `${formatNumber(found)} found damaged, ${formatNumber(repaired)} mended; ${plural(orphans.openPlans, 'open plan')}`;
  return tile('Copies', shown, more);
}

/** What storages with tiers serve, forecast and move. */
function migrations(list) {
  const columns = [
    { title: 'Storage', cell: ({ storage }) => element('span', { className: 'id' }, storage) },
    { title: 'State', cell: ({ status }) => movingState(status) },
    {
      title: 'Small files',
      className: 'load',
      cell: ({ status }) => load(status.load.smallFile, status.capacityBytes),
    },
    {
      title: 'Metadata',
      className: 'load',
      cell: ({ status }) => load(status.load.metadata, status.capacityBytes),
    },
    { title: 'Threshold', number: true, cell: ({ status }) => formatBytes(status.thresholdBytes) },
    {
      title: 'In rows',
      number: true,
      cell: ({ status }) =>
        `${plural(status.rows.files, 'file')}, ${formatBytes(status.rows.bytes)}`,
    },
    {
      title: 'Moved',
      number: true,
      cell: ({ status }) =>
        `${plural(status.moves.moved, 'file')}, ${formatBytes(status.movedBytes)}`,
    },
    { title: 'Wait', number: true, cell: ({ status }) => formatNumber(status.queued) },
  ];
  return table('Load and migration of storages', columns, list);
}

function movingState({ migrates, isPaused, isDryRun, moves }) {
  const text = isPaused
    ? 'paused'
    : isDryRun
      ? 'dry run'
      : migrates
        ? 'moves files'
        : 'by growth only';
  const className = isPaused || isDryRun ? 'warn' : moves.failed > 0 ? 'bad' : 'good';
  return element('span', { className }, text);
}

/** Served and, behind the arrow, forecast of a class, and its share of what can be served. */
function load({ servedBytes, forecastBytes }, capacityBytes) {
  const share = capacityBytes === 0 ? 0 : forecastBytes / capacityBytes;
  const text = `${formatBytes(servedBytes)} → ${formatBytes(forecastBytes)}, ${formatPercent(share)}`;
  return element('span', { className: 'share' }, bar(share, share > 1 ? 'bad' : undefined), text);
}

/** Between each two samples, a second. */
function ratesOf(samples) {
  return samples.slice(1).map((sample, index) => {
    const before = samples[index];
    const seconds = Math.max((sample.at - before.at) / 1000, 0.001);
    return {
      at: sample.at,
      uploads: (sample.acknowledgedFiles - before.acknowledgedFiles) / seconds,
      reads: (sample.reads - before.reads) / seconds,
    };
  });
}

function charts({ samples, now }) {
  const rates = ratesOf(samples);
  const staged = samples.map((sample) => [sample.at, sample.stagedBytes]);
  const uploads = rates.map((rate) => [rate.at, rate.uploads]);
  const reads = rates.map((rate) => [rate.at, rate.reads]);
  const aSecond = (rate) => `${formatRate(rate)} /s`;
  return [
    chart('Staged bytes', staged, formatBytes, now, SPAN_MS),
    chart('Uploads', uploads, aSecond, now, SPAN_MS),
    chart('Reads', reads, aSecond, now, SPAN_MS),
  ];
}

function merges(list) {
  if (list.length === 0)
    return element('p', { className: 'empty' }, 'Nothing was merged since the start.');
  const columns = [
    { title: 'Stored', cell: (merge) => formatClock(merge.at) },
    { title: 'Kind', cell: (merge) => (merge.kind === 'whole' ? 'large file' : 'trunk') },
    { title: 'Files', number: true, cell: (merge) => formatNumber(merge.files) },
    { title: 'Size', number: true, cell: (merge) => formatBytes(merge.bytes) },
    {
      title: 'Fill',
      className: 'fill',
      cell: (merge) =>
        merge.kind === 'whole'
          ? 'whole'
          : element('span', { className: 'share' }, bar(merge.fill), formatPercent(merge.fill)),
    },
    { title: 'Took', number: true, cell: (merge) => formatDuration(merge.durationMs) },
    { title: 'FastDFS id', cell: (merge) => element('span', { className: 'id' }, merge.fileId) },
  ];
  return table('The last merges', columns, [...list].reverse().slice(0, MERGES_SHOWN));
}

function cluster({ cluster: members, trackers, now }) {
  if (!members)
    return element('p', { className: 'empty' }, `No tracker answers (${trackers.join(', ')}).`);
  if (members.length === 0)
    return element('p', { className: 'empty' }, 'The trackers know no storage yet.');
  const columns = [
    { title: 'Group', cell: (member) => member.group },
    { title: 'Storage', cell: (member) => element('span', { className: 'id' }, member.address) },
    {
      title: 'State',
      cell: (member) =>
        element(
          'span',
          { className: member.active ? 'good' : 'bad' },
          member.active ? 'active' : 'not active',
        ),
    },
    { title: 'Free', number: true, cell: (member) => formatBytes(member.freeBytes) },
    { title: 'Size', number: true, cell: (member) => formatBytes(member.totalBytes) },
    {
      title: 'Heard of',
      cell: (member) =>
        member.heardAt
          ? `${formatDuration(Math.max(0, now - Date.parse(member.heardAt)))} ago`
          : '',
    },
    { title: 'Version', cell: (member) => member.version },
  ];
  return table(`Storages, as ${trackers.join(', ')} knows them`, columns, members);
}

function troubleItem({ at: time, code, message, times }) {
  const often = times > 1 ? `, ${formatNumber(times)} times` : '';
  return element(
    'li',
    {},
    element('span', { className: 'hint' }, `${formatMoment(time)}, ${code}${often}`),
    element('br'),
    message,
  );
}

// --- the key --------------------------------------------------------------------------

let asking;

function askForKey(error) {
  asking ??= new Promise((resolve) => {
    const dialog = at('key-dialog');
    if (hasKey())
      at('key-why').textContent = `The gateway does not take that key: ${error.message}`;
    setKey(undefined);
    at('key').value = '';
    at('key-form').onsubmit = () => setKey(at('key').value.trim());
    dialog.onclose = () => {
      asking = undefined;
      at('enter-key').hidden = hasKey();
      resolve(hasKey());
    };
    dialog.showModal();
  });
  return asking;
}

at('enter-key').onclick = poll;

// --- uploads --------------------------------------------------------------------------

const waiting = [];
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
        said.textContent =
          loaded >= file.size ? 'Making it safe' : formatPercent(loaded / file.size);
      },
      controller.signal,
    );
    showStored(view, receipt);
    say(`${file.name} is stored`);
    poll();
  } catch (error) {
    progress.remove();
    cancel.remove();
    said.className = 'bad';
    said.textContent = error.message;
    say(`${file.name}: ${error.message}`);
    if (error instanceof Refused && error.status === 401) await askForKey(error);
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
        { type: 'button', className: 'plain small', onclick: () => show(key) },
        'Look up',
      ),
    ),
  );
}

function copyButton(text) {
  const button = element('button', { type: 'button', className: 'plain small' }, 'Copy the key');
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
      say('The key is copied');
    } catch {
      // Without a secure origin there is no clipboard; the key can still be selected.
      button.textContent = 'Select it by hand';
    }
  };
  return button;
}

function say(text) {
  at('upload-said').textContent = text;
}

const drop = at('drop');
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
at('files').addEventListener('change', (event) => {
  add([...event.target.files]);
  event.target.value = '';
});

// --- look-up --------------------------------------------------------------------------

at('look').addEventListener('submit', (event) => {
  event.preventDefault();
  show(
    at('id')
      .value.trim()
      .replace(/^\/?files\//, '')
      .replace(/^\//, ''),
  );
});

async function show(id) {
  at('id').value = id;
  const found = at('found');
  try {
    const info = await lookUp(id);
    found.replaceChildren(...describe(info));
  } catch (error) {
    found.replaceChildren(element('p', { className: 'bad' }, error.message));
    if (error instanceof Refused && error.status === 401) await askForKey(error);
  }
}

function describe(info) {
  const { key, url, name, size, type, crc32, state, affinityGroup, stagedAt, fileId } = info;
  const id = (text) => (text ? element('span', { className: 'id' }, text) : undefined);
  const list = facts([
    ['Name', name],
    ['Size', size === undefined ? undefined : `${formatBytes(size)} (${formatNumber(size)} bytes)`],
    ['Type', type],
    ['State', state],
    ['Key', id(key)],
    ['FastDFS id', id(fileId)],
    ['Group', affinityGroup],
    ['Staged', stagedAt ? formatMoment(new Date(stagedAt)) : undefined],
    ['Expires', info.expiresAt ? formatMoment(new Date(info.expiresAt)) : undefined],
    ['CRC-32', id(crc32)],
  ]);
  const actions = element('p', { className: 'actions' }, ...fileActions(url, name));
  if (key) actions.append(deleteButton(key, name));
  const shown = [list, actions];
  if (/^image\/(?:png|jpeg|gif|webp|avif|bmp)\b/.test(type)) {
    const picture = element('img', {
      className: 'preview',
      alt: `Preview of ${name || 'the file'}`,
    });
    picture.onerror = () => picture.remove();
    showIn(picture, url);
    shown.push(picture);
  }
  return shown;
}

/** A link carries no key: with one, the page fetches the file and hands it over. */
function fileActions(url, name) {
  if (!hasKey()) {
    return [
      element('a', { href: url, target: '_blank', rel: 'noreferrer' }, 'Open'),
      element('a', { href: `${url}?download` }, 'Download'),
    ];
  }
  const button = element('button', { type: 'button', className: 'plain small' }, 'Download');
  button.onclick = async () => {
    try {
      const link = element('a', { href: await fetchFile(url), download: name || 'file' });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), LONGEST_POLL_MS);
    } catch (error) {
      at('found').append(element('p', { className: 'bad' }, error.message));
    }
  };
  return [button];
}

async function showIn(picture, url) {
  try {
    picture.src = hasKey() ? await fetchFile(url) : url;
  } catch {
    picture.remove();
  }
}

function deleteButton(key, name) {
  const button = element('button', { type: 'button', className: 'danger small' }, 'Delete');
  button.onclick = async () => {
    if (button.dataset.sure === undefined) {
      button.dataset.sure = '';
      button.textContent = 'Delete for ever?';
      return;
    }
    button.disabled = true;
    try {
      await call(fileUrl(key), { method: 'DELETE' });
      at('found').replaceChildren(element('p', {}, `${name || key} is deleted.`));
      poll();
    } catch (error) {
      at('found').append(element('p', { className: 'bad' }, error.message));
    }
  };
  button.onblur = () => {
    delete button.dataset.sure;
    if (!button.disabled) button.textContent = 'Delete';
  };
  return button;
}

// Wide tables scroll by themselves, with the arrow keys too.
for (const [id, label] of [
  ['merges', 'The last merges'],
  ['cluster', 'Storages'],
  ['migration', 'Load and migration'],
]) {
  Object.assign(at(id), { tabIndex: 0, role: 'region', ariaLabel: label });
}

document.addEventListener('visibilitychange', poll);
poll();
