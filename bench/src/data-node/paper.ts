import type { Setting } from './settings.js';

/**
 * What the data node paper says of its figures 6 to 9: gains over neither, in percent.
 * It prints no tables. 20 machines with a 7,200 rpm disk each, files of 20 KB, 2 TB.
 */
export const PAPER_GAINS: Readonly<
  Record<'read' | 'mixed' | 'nodes', Readonly<Partial<Record<Setting, string>>>>
> = {
  read: { neither: '0', cache: '17 to 35', 'co-location': '10 to 20', both: '20 to 49' },
  mixed: {
    neither: '0',
    cache: 'nearly as reads',
    'co-location': 'nearly as reads',
    both: 'nearly as reads',
  },
  nodes: { neither: '0', cache: '35', 'co-location': '20', both: '50' },
};

/** From here on the paper's gain grows much slower: its list is searched from end to end. */
export const PAPER_KNEE_MEBIBYTES = 64;
