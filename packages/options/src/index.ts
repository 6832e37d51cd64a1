/** Options: declared once, read from flags, the environment, a file or a program. */

export { givenJson, givenText, isServiceLink } from './given.js';
export {
  defaultsOf,
  formatBytes,
  type OptionKind,
  type OptionSpec,
  type OptionTable,
  type OptionValues,
  option,
  type RawOptions,
  typedDefault,
} from './option.js';
export * from './parse.js';
