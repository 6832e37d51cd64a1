import { Child, type ChildOptions } from './child.js';

/** The processes of all benchmarks, by the places of their modules. */
interface Processes {
  'client/storing': typeof import('../client/storing-process.js');
  'data-node/load': typeof import('../data-node/load-process.js');
  'data-node/look-up': typeof import('../data-node/look-up-process.js');
  'data-node/model': typeof import('../data-node/model-process.js');
  'data-node/node': typeof import('../data-node/node-process.js');
  'harness/nodes': typeof import('./nodes-process.js');
  'harness/relay': typeof import('./relay-process.js');
  'merging/site': typeof import('../merging/site-process.js');
  'migration/load': typeof import('../migration/load-process.js');
  'migration/model': typeof import('../migration/model-process.js');
  'servers/load': typeof import('../servers/load-process.js');
  'servers/plain': typeof import('../servers/plain-process.js');
  'staging/cost': typeof import('../staging/cost-process.js');
  'staging/fill': typeof import('../staging/fill-process.js');
  'staging/start': typeof import('../staging/start-process.js');
}

export type Running<Name extends keyof Processes> = Child<Processes[Name]>;

export function start<N extends keyof Processes>(name: N, options?: ChildOptions): Running<N> {
  return new Child(new URL(`../${name}-process.js`, import.meta.url), options);
}
