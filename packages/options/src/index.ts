/** Options: declared once, read from flags, the environment, a file or a program. */

export { givenJson, givenText, isServiceLink } from './given.js';
export {
  type Duration,
  defaultsOf,
  formatBytes,
  type OptionKind,
  type OptionSpec,
  type OptionTable,
  type OptionValues,
  option,
  type RawOptions,
  type Size,
  typedDefault,
} from './option.js';
export * from './parse.js';
