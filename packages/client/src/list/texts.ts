/** Texts that are compared: times of RFC 3339, and names as people see them. */

const TIME =
  /^(\d{4})-(\d\d)-(\d\d)(?:t(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:z|([+-])(\d\d):(\d\d)))?$/i;

/**
 * A `date-time` of RFC 3339 (`2030-01-31T12:00:00Z`, `…+02:00`), or a `full-date`, which is its
 * beginning in UTC. Undefined for anything else, such as a day that there is not.
 */
export function parseTime(text: string): Date | undefined {
  const [, year, month, day, hour = 0, minute = 0, second = 0, fraction = '', sign, ...offset] =
    TIME.exec(text) ?? [];
  if (year === undefined) return undefined;
  const [hours = 0, minutes = 0] = offset.map((part = '0') => +part);
  const time = Date.UTC(+year, +month! - 1, +day!);
  // Days of other months, and years before 100, come out as others.
  if (!new Date(time).toISOString().startsWith(`${year}-${month}-${day}`)) return undefined;
  // A leap second is the first of the next minute.
  if (+hour > 23 || +minute > 59 || +second > 60 || hours > 23 || minutes > 59) return undefined;
  const ahead = (hours * 60 + minutes) * (sign === '-' ? -60 : 60);
  const seconds = (+hour * 60 + +minute) * 60 + +second - ahead;
  return new Date(time + seconds * 1000 + Number(fraction.slice(0, 3).padEnd(3, '0')));
}

/** A name in one of its forms: an accent can be a part of its letter or follow it. */
export function composed(name: string): string {
  return name.toWellFormed().normalize('NFC');
}

/** Equal for names that differ in that form and in case alone. */
export function folded(name: string): string {
  return composed(name.toLowerCase());
}
