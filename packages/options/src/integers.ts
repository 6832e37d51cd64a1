import { OptionError } from './parse.js';

/** Numbers that a program gives, as they are: no unit, no text. */

/** The default of an option, the least and the most that it may be. */
type IntegerBounds = readonly [usual: number, least: number, most: number];

/** Each option as given, or its default; OptionError for what is no integer within its bounds. */
export function integers<Name extends string>(
  given: { readonly [Each in NoInfer<Name>]?: number | undefined },
  bounds: Readonly<Record<Name, IntegerBounds>>,
): Record<Name, number> {
  const values: Partial<Record<Name, number>> = {};
  for (const name of Object.keys(bounds) as Name[]) {
    const [usual, least, most] = bounds[name];
    const value = given[name] ?? usual;
    checkInteger(name, value, least, most);
    values[name] = value;
  }
  return values as Record<Name, number>;
}

export function checkInteger(name: string, value: number, least: number, most: number): void {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new OptionError(`${name} must be an integer from ${least} to ${most}, not ${value}`);
  }
}
