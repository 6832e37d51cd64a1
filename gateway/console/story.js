// The story of a file: uploaded, on this disk, in a trunk, at which storages.
import { element, facts, formatMoment, formatNumber, plural, table } from './view.js';

const COPIES = {
  present: ['good', 'has it'],
  differs: ['bad', 'has another file under this id'],
  absent: ['bad', 'does not have it'],
  unknown: ['warn', 'does not answer'],
};

/** A list of steps, from the upload on. */
export function story({ file, disk, trunk, storages, problem }) {
  return element(
    'ol',
    { className: 'story' },
    step('Uploaded', moment(file.stagedAt), []),
    diskStep(disk, trunk),
    trunkStep(file, trunk),
    storageStep(trunk, storages, problem),
  );
}

function diskStep(disk, trunk) {
  if (!disk) {
    return step('On this disk', trunk ? 'no longer, FastDFS has it' : 'no: on another server', []);
  }
  const why = trunk ? 'as a read copy' : 'the only copy so far';
  const where = disk.at === 'spool' ? 'in a file of its own' : `in segment ${disk.segment}`;
  return step('On this disk', `${where}, ${why}`, []);
}

const PENDING = {
  waiting: 'it waits for its trunk',
  sending: 'its trunk is being sent',
  joining: 'its trunk is not full and will be joined with others',
  retrying: 'FastDFS did not take the last trunk; it is tried again',
  damaged: 'its only copy is damaged',
};

function why({ reason, by }) {
  return `${PENDING[reason]}${by ? `, until ${moment(by)} at the latest` : ''}`;
}

function trunkStep({ fileId, idPending }, trunk) {
  const pending = idPending ? why(idPending) : '';
  if (!trunk) return step('In FastDFS', `not yet: ${pending || PENDING.waiting}`, [], 'waits');
  const isTrunk = trunk.kind === 'trunk';
  const others = trunk.files === undefined ? '' : ` of ${plural(trunk.files, 'file')}`;
  const what = isTrunk ? `in a trunk${others}` : 'as one large file';
  return step('In FastDFS', `${moment(trunk.storedAt)}, ${what}`, [
    isTrunk ? ['Trunk', id(trunk.fileId || 'hidden: no API keys')] : ['FastDFS id', id(fileId)],
    ['Begins at byte', isTrunk ? formatNumber(trunk.offset) : undefined],
    [
      'FastDFS id of the file',
      isTrunk ? (id(fileId) ?? (pending ? `none yet: ${pending}` : 'none')) : undefined,
    ],
  ]);
}

function storageStep(trunk, storages, problem) {
  if (!trunk) return step('At the storages', 'not yet', [], 'waits');
  if (problem) return step('At the storages', `unknown: ${problem}`, [], 'waits');
  const columns = [
    { title: 'Storage', cell: ({ address }) => id(address) },
    {
      title: 'Copy',
      cell: ({ copy, active }) => {
        const [className, text] = COPIES[copy];
        return element('span', { className }, active ? text : 'is not active');
      },
    },
  ];
  const shown = step('At the storages', confirmation(trunk), []);
  if (storages.length > 0) shown.append(table('Copies at the storages', columns, storages));
  return shown;
}

function confirmation({ isConfirmed, confirmedAt }) {
  if (isConfirmed === undefined) return '';
  if (!isConfirmed) return 'not confirmed: this disk keeps the file until enough storages have it';
  return confirmedAt ? `confirmed ${moment(confirmedAt)}` : 'confirmed';
}

function step(title, text, entries, state = 'done') {
  const head = element('p', {}, element('strong', {}, title), text ? ` ${text}` : '');
  const known = entries.filter(([, value]) => value !== undefined && value !== '');
  const parts = known.length > 0 ? [head, facts(known)] : [head];
  return element('li', { dataset: { state } }, ...parts);
}

function id(text) {
  return text ? element('span', { className: 'id' }, text) : undefined;
}

function moment(text) {
  return formatMoment(new Date(text));
}
