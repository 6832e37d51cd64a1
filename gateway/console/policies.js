// Upload policies, which are made, changed and removed here by who may administer the gateway.
import { call, get, hasKey, urlOf } from './transfer.js';
import {
  ask,
  at,
  button,
  changes,
  command,
  element,
  fillIn,
  formatBytes,
  formatDuration,
  formatNumber,
  region,
  table,
} from './view.js';

const SIZES = ['GiB', 'MiB', 'KiB', 'B'];
const TIMES = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
];

/** The fields of the dialog: the parameter of each, and what a policy has for it. */
const FIELDS = {
  'max-file-size': ({ maxFileBytes }) => typedSize(maxFileBytes),
  'max-files': ({ maxFiles }) => maxFiles ?? '',
  'max-total-size': ({ maxTotalBytes }) => typedSize(maxTotalBytes),
  types: ({ types }) => types?.join(', ') ?? '',
  group: ({ group }) => group ?? '',
  ttl: ({ ttlMs }) => typedTime(ttlMs),
  durability: ({ durability }) => durability ?? '',
};

export async function showPolicies() {
  const refused = [element('p', {}, 'Policies are shown to a key with the scope admin.')];
  if (!hasKey()) return at('policies').replaceChildren(...refused);
  try {
    const { file, policies } = await get('policies');
    at('policies').replaceChildren(...policyList(policies, file), ...making(policies, file));
  } catch (error) {
    const isRefused = error.status === 401 || error.status === 403;
    const failed = [element('p', { className: 'bad' }, error.message)];
    at('policies').replaceChildren(...(isRefused ? refused : failed));
  }
}

function policyList(policies, file) {
  const entries = Object.entries(policies);
  if (entries.length === 0) return [element('p', { className: 'empty' }, 'There are no policies.')];
  const columns = [
    { title: 'Uploads to', cell: ([name]) => element('code', {}, pathOf(name)) },
    { title: 'Files', cell: ([, { maxFiles }]) => (maxFiles ? formatNumber(maxFiles) : 'any') },
    { title: 'Largest file', number: true, cell: ([, policy]) => size(policy.maxFileBytes) },
    { title: 'All together', number: true, cell: ([, policy]) => size(policy.maxTotalBytes) },
    { title: 'Types', className: 'wide', cell: ([, { types }]) => types?.join(', ') ?? 'any' },
    { title: 'Content checked', cell: ([, { checkContent }]) => (checkContent ? 'yes' : 'no') },
    { title: 'Folder', cell: ([, { group }]) => group ?? '' },
    { title: 'Lifetime', cell: ([, { ttlMs }]) => (ttlMs ? formatDuration(ttlMs) : 'for ever') },
    ...(file ? [{ title: 'Change', cell: ([name]) => changing(name, policies) }] : []),
  ];
  return [region('List of policies', table('Policies', columns, entries))];
}

function making(policies, file) {
  if (!file) {
    return [
      element('p', { className: 'hint' }, 'To make policies here, start the gateway with a file:'),
      command("echo '{}' > stevedore-policies.json"),
      command('stevedore gateway --policies stevedore-policies.json'),
    ];
  }
  const add = button('New policy', () => edit(policies), { className: '' });
  const text = `The policies are in ${file}. Changes hold from the next upload on.`;
  return [element('p', { className: 'actions' }, add), element('p', { className: 'hint' }, text)];
}

function changing(name, policies) {
  const change = ['Change', () => edit(policies, name)];
  return changes(name, change, ['Remove', () => removePolicy(name)]);
}

async function removePolicy(name) {
  const what =
    name === 'default'
      ? 'Uploads to /files are limited by the gateway alone from then on.'
      : `Uploads to ${pathOf(name)} are refused from then on.`;
  if (!(await ask(`Remove “${name}”?`, what, 'Files that are stored stay.', 'Remove it'))) return;
  await call(`policies/${name}`, { method: 'DELETE' });
  await showPolicies();
}

/** Without a name, a new one. */
function edit(policies, name) {
  const policy = policies[name] ?? {};
  at('policy-title').textContent = name ? `Policy “${name}”` : 'New policy';
  at('policy-name').value = name ?? '';
  at('policy-name').disabled = name !== undefined;
  for (const [field, textOf] of Object.entries(FIELDS)) {
    at(`policy-${field}`).value = textOf(policy);
  }
  at('policy-check').checked = policy.checkContent === true;
  fillIn('policy', async (dialog) => {
    const named = at('policy-name').value.trim();
    if (name === undefined && Object.hasOwn(policies, named)) {
      throw new Error('There is a policy of that name.');
    }
    const query = new URLSearchParams({ 'check-content': at('policy-check').checked });
    for (const field of Object.keys(FIELDS)) query.set(field, at(`policy-${field}`).value.trim());
    await call(`policies/${encodeURIComponent(named)}?${query}`, { method: 'PUT' });
    dialog.close();
    await showPolicies();
  });
}

function pathOf(name) {
  return new URL(urlOf(name === 'default' ? 'files' : `uploads/${name}`)).pathname;
}

function size(bytes) {
  return bytes === undefined ? 'as the gateway' : formatBytes(bytes);
}

/** As somebody would type it, to the byte. */
function typedSize(bytes) {
  if (bytes === undefined) return '';
  const unit = SIZES.findIndex((_, index) => bytes % 1024 ** (3 - index) === 0);
  return `${bytes / 1024 ** (3 - unit)}${SIZES[unit]}`;
}

function typedTime(ms) {
  if (ms === undefined) return '';
  const [unit, length] = TIMES.find(([, each]) => ms % each === 0);
  return `${ms / length}${unit}`;
}
