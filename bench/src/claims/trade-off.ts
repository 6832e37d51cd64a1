import type { Claim, Figure, Paper } from './claim.js';

/** An adaptive trade-off between metadata and small files in a cluster file system. */

const CLIENTS = [1, 2, 4, 8, 16] as const;
const FORECASTERS = ['ba-esm', 'sesm-0.1', 'sesm-0.6', 'sesm-0.9', 'zero', 'waiting'] as const;
const TRADE_OFF = 'migration/trade-off';
const held = (what: string, test: string, ours = ''): Claim => ({
  ...{ what, paper: '', ours, test: `unit/${test}` },
});

function forecast(trace: string, name: string, paper: string, ratio: number): Claim {
  const id = (what: string) => `forecast.${trace}.${what}`;
  return {
    what: `Table 3, ${name}: MAE of BA-ESM beside SESM of 0.1, 0.6, 0.9`,
    paper,
    measured: {
      run: 'migration/forecasts',
      ours: (figure) =>
        `${figure(id('ba-esm')).toFixed(2)} beside ${['0.1', '0.6', '0.9'].map((alpha) => figure(id(`sesm-${alpha}`)).toFixed(2)).join(', ')}; always zero ${figure(id('zero')).toFixed(2)}, what waits ${figure(id('waiting')).toFixed(2)}`,
      holds: (figure) => figure(id('vs-sesm')) <= ratio,
      isModel: true,
      why: 'how the paper’s scheduler holds requests back is not said, so the queues are ours',
    },
  };
}

interface Bound {
  readonly what: string;
  readonly paper: string;
  readonly run?: string;
  readonly id: string;
  readonly text?: (value: number) => string;
  readonly holds: (value: number) => boolean;
  readonly why: string;
}

function bound({ what, paper, run = TRADE_OFF, id, text, holds, why }: Bound): Claim {
  const shown = text ?? ((value: number) => `${value.toFixed(2)} x`);
  const value = (figure: Figure) => figure(id);
  return {
    ...{ what, paper },
    measured: {
      ...{ run, isModel: true, why },
      ours: (figure) => shown(value(figure)),
      holds: (figure) => holds(value(figure)),
    },
  };
}

const SLOW_WRITES = 'metadata and rows sync to one disk, whose arm they share';

export const tradeOff: Paper = {
  title: 'Adaptive trade-off',
  claims: [
    held('Eqs. 1, 2: load efficiency, the load within B_logic', 'balance/load.test.ts'),
    held('Eqs. 3, 4: ρ, what small files may keep', 'balance/load.test.ts'),
    held(
      'Eqs. 5, 6: what the target takes, and what goes to I/O servers',
      'balance/load.test.ts',
      'Eq. 5 with the target’s own efficiency',
    ),
    held('Eq. 7: SESM', 'balance/forecast.test.ts'),
    held('Eqs. 8, 9: data served in an interval', 'tiering/scheduler.test.ts'),
    held('Eqs. 10, 11: ratio of what waits to what was served', 'balance/forecast.test.ts'),
    held('Eq. 12: BA-ESM', 'balance/forecast.test.ts', 'fed with L′, see `packages/balance`'),
    held(
      'Eq. 13: the global threshold',
      'balance/threshold.test.ts',
      'min where the paper has max',
    ),
    held(
      'Eq. 14: the threshold of a file',
      'balance/threshold.test.ts',
      'min where the paper has max',
    ),
    {
      what: 'Eq. 15: what a migration sends over the network',
      paper: '2 RD + FD',
      skipped:
        'the network takes no time in the model of figure 6; passive migration is measured there without it',
    },
    held('Eq. 16: MAE', 'balance/forecast.test.ts'),
    held('Selection by migration profit, up to ML or N files', 'balance/selection.test.ts'),
    held('Target: min(TL − ML); one target, the rest to I/O servers', 'balance/selection.test.ts'),
    held(
      'Small files are blocked where their load exceeds what may stay',
      'tiering/scheduler.test.ts',
      'they wait for their share',
    ),
    held(
      'A file over its threshold moves; one that shrinks comes back',
      'tiering/tiered-files.test.ts',
    ),
    held(
      'Migration response: a change revokes a move',
      'tiering/moves.test.ts',
      'reads go on meanwhile, nobody has to ask again',
    ),
    held(
      'Table 1: parameters',
      'balance/threshold.test.ts',
      '0.8 is the high mark, 0.2 the low one',
    ),
    held('Table 2: the metadata trace', 'bench/scheduler.test.ts'),
    forecast('metadata', 'metadata', '0.53 beside 0.68, 0.69, 1.05', 0.78),
    forecast('smallFile', 'small files', '3.89 beside 7.27, 7.94, 9.82', 0.53),
    {
      what: 'BA-ESM is better than a forecast without skill (small files)',
      paper: 'not asked',
      measured: {
        run: 'migration/forecasts',
        ours: (figure) =>
          `${figure('forecast.smallFile.vs-unskilled').toFixed(2)} x the error of the best one`,
        holds: (figure) => figure('forecast.smallFile.vs-unskilled') <= 1,
        isModel: true,
        why: 'the bytes that wait, without any forecast, are nearer to the next load of IOR’s barriers',
      },
    },
    {
      what: 'Fig. 3: load and forecasts over time',
      paper: 'a chart',
      measured: {
        run: 'migration/forecasts',
        ours: () => 'the charts `forecast-metadata` and `forecast-smallFile` of the report',
        holds: (figure) => figure('forecast.metadata.vs-sesm') < 1,
        ...{ isModel: true, why: 'BA-ESM is no nearer to the load than SESM' },
      },
    },
    bound({
      what: 'Fig. 4: metadata falls without the method, 1 to 16 clients',
      paper: '− 66.7 %',
      id: 'trade-off.baseline.fall',
      text: (fall) => `− ${(100 * fall).toFixed(1)} %`,
      holds: (fall) => fall >= 0.5,
      why: 'it falls less',
    }),
    bound({
      what: 'Fig. 4: metadata with the method and an I/O server, 16 clients to 1',
      paper: 'level',
      id: 'trade-off.io.level',
      holds: (level) => level >= 0.95,
      why: SLOW_WRITES,
    }),
    bound({
      what: 'Fig. 4: small files scale with the method, of those without metadata, at 16 clients',
      paper: 'a chart',
      id: 'trade-off.io.c16.small-files-vs-alone',
      holds: (ratio) => ratio >= 0.8,
      why: SLOW_WRITES,
    }),
    bound({
      what: 'The same where nothing can move: metadata of that without small files, at 16 clients',
      paper: 'none: there are I/O servers',
      id: 'trade-off.throttle.c16.metadata-vs-alone',
      holds: (ratio) => ratio >= 0.8,
      why: 'small files keep a fifth',
    }),
    ...(['two', 'three'] as const).flatMap((name) => [
      bound({
        what: `Fig. 5, ${name} metadata servers: metadata of that of one with an I/O server, at 16 clients`,
        paper: '+ 3 %',
        id: `trade-off.${name}.c16.metadata-vs-one`,
        holds: (ratio) => ratio >= 1.03,
        why: 'metadata of the first server has all that its disk gives already: nothing is left to gain',
      }),
      bound({
        what: `Fig. 5, ${name} metadata servers: small files, likewise`,
        paper: 'more',
        id: `trade-off.${name}.c16.small-files-vs-one`,
        holds: (ratio) => ratio > 1,
        why: SLOW_WRITES,
      }),
    ]),
    bound({
      what: 'Fig. 6: passive migration of writes of 1 MiB, over active',
      paper: 'less, a chart',
      run: 'migration/cost',
      id: 'cost.passive.a1024.vs-active',
      holds: (ratio) => ratio < 1,
      why: 'an upload to the other group and the record at home are synced in either way',
    }),
    bound({
      what: 'Fig. 6: the target made ahead (writes of 16 KiB), over passive without',
      paper: 'less, a chart',
      run: 'migration/cost',
      id: 'cost.ahead.a16.vs-passive',
      holds: (ratio) => ratio < 1,
      why: 'two journals are synced, at the target and at home, and nothing hides one behind the other',
    }),
    {
      what: 'Fig. 6: passive migration is worth it with the next write: ours over passive, both writes',
      paper: 'not asked',
      measured: {
        run: 'migration/cost',
        ours: (figure) =>
          [16, 256, 1024, 4096]
            .map((kib) => `${kib} KiB ${figure(`cost.here.a${kib}.both-vs-passive`).toFixed(2)} x`)
            .join(', '),
        holds: (figure) => figure('cost.here.a16.both-vs-passive') >= 1,
        isModel: true,
        why: 'bytes in another group never change here, so the next write brings the file home; it costs more than was hidden, except for writes of a MiB and more, so passive migration is not built',
      },
    },
  ],
  charts: [
    {
      ...{ name: 'trade-off-metadata', benchmark: 'migration' },
      title: 'Figure 4: metadata beside small files',
      ...{
        xTitle: 'clients of small files',
        yTitle: 'ours: of that alone; the paper: of 1 client',
      },
      labels: CLIENTS.map(String),
      series: [
        { name: 'the paper, without the method', values: [1, null, null, null, 0.333] },
        { name: 'the paper, with it', values: [1, null, null, null, 1] },
        ...(['baseline', 'io', 'throttle', 'two'] as const).map((name) => ({
          name: {
            ...{ baseline: 'ours, without the method', io: 'ours, an I/O server' },
            ...{ throttle: 'ours, nowhere to move to', two: 'ours, 2 metadata servers' },
          }[name],
          values: CLIENTS.map((clients) => `trade-off.${name}.c${clients}.metadata-vs-alone`),
        })),
      ],
    },
    {
      ...{ name: 'forecasts', benchmark: 'migration' },
      title: 'Table 3: mean absolute error of the forecasts',
      ...{ xTitle: 'method', yTitle: 'MB per interval' },
      labels: ['BA-ESM', 'SESM 0.1', 'SESM 0.6', 'SESM 0.9', 'zero', 'what waits'],
      series: [
        { name: 'the paper, metadata', values: [0.53, 0.68, 0.69, 1.05] },
        { name: 'ours, metadata', values: FORECASTERS.map((each) => `forecast.metadata.${each}`) },
        { name: 'the paper, small files', values: [3.89, 7.27, 7.94, 9.82] },
        {
          name: 'ours, small files',
          values: FORECASTERS.map((each) => `forecast.smallFile.${each}`),
        },
      ],
    },
  ],
};
