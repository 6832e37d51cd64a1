import {
  environmentName,
  flagName,
  formatBytes,
  fromEnvironment,
  fromFlags,
  fromProgram,
  nearestName,
  OptionError,
  option,
  parseOptions,
  typedDefault,
} from '@stevedore/options';
import { describe, expect, test } from 'vitest';

const table = {
  trunkSize: option.size('64MiB', 'longest trunk', { minimum: '1MiB', maximum: '2GiB' }),
  maxAge: option.duration('90s', 'longest wait'),
  port: option.port(8080, 'port'),
  copies: option.integer(1, 'copies', { maximum: 3 }),
  filter: option.boolean(false, 'a filter'),
  trackers: option.list([], 'trackers'),
  durability: option.choice('sync', ['sync', 'os'], 'durability'),
  secret: option.text('', 'the secret', { only: 'environment' }),
  again: option.boolean(false, 'again', { only: 'flag' }),
};

const parsed = (values: Record<string, unknown>) => parseOptions(table, [fromProgram(values)]);

describe('an option', () => {
  test('has its flag, its variable and its default as it would be typed', () => {
    expect([flagName('trunkSize'), environmentName('trunkSize')]).toEqual([
      '--trunk-size',
      'STEVEDORE_TRUNK_SIZE',
    ]);
    expect(Object.values(table).map(typedDefault)).toEqual([
      '64MiB',
      '90s',
      '8080',
      '1',
      'off',
      'none',
      'sync',
      'none',
      'off',
    ]);
  });

  test.each([
    ['trunkSize', '1.5GiB', 1.5 * 2 ** 30],
    ['trunkSize', 2 ** 21, 2 ** 21],
    ['maxAge', '2m', 120_000],
    ['maxAge', '0', 0],
    ['copies', '3', 3],
    ['filter', '1', true],
    ['filter', 'false', false],
    ['trackers', 'a:1, b:2,', ['a:1', 'b:2']],
    ['durability', 'os', 'os'],
  ])('%s of %j is %j', (name, given, value) => {
    expect(parsed({ [name]: given })).toMatchObject({ [name]: value });
  });

  test.each([
    ['trunkSize', '64', '"64" has no unit; write it like 64MiB'],
    ['trunkSize', '3GiB', '3 GiB is more than 2 GiB'],
    ['maxAge', '1 moon', 'no known unit'],
    ['port', 70_000, '70000 is more than 65535'],
    ['copies', -1, '"-1" is not a whole number'],
    ['filter', 'maybe', 'neither true nor false'],
    ['trackers', [1], 'a list of texts is needed'],
    ['durability', 'tape', '"tape" is none of sync, os'],
    ['trunksize', 1, 'did you mean trunkSize?'],
  ])('%s of %j is refused', (name, given, message) => {
    expect(() => parsed({ [name]: given })).toThrow(OptionError);
    expect(() => parsed({ [name]: given })).toThrow(message);
  });

  test('is read as other tools write it: a mark before it, a line break behind it', () => {
    const environment = { STEVEDORE_SECRET: '\ufeffsecret\r\n', STEVEDORE_COPIES: '2\n' };
    const values = parseOptions(table, [fromEnvironment(table, environment)]);
    expect(values).toMatchObject({ secret: 'secret', copies: 2 });
    expect(parsed({ trackers: ['a:1\n'], maxAge: '5s\n' })).toMatchObject({
      trackers: ['a:1'],
      maxAge: 5000,
    });
    expect(() => parsed({ secret: 'two\nlines' })).toThrow('secret: a line break or control');
    expect(() => parsed({ trackers: 'a:1\nb:1' })).toThrow('trackers: a line break or control');
  });

  test('is no address of a service that Kubernetes sets', () => {
    for (const value of ['tcp://10.0.0.1:8080', 'udp://10.0.0.1:53']) {
      const environment = { STEVEDORE_PORT: value, STEVEDORE_COPIES: '2' };
      const values = parseOptions(table, [fromEnvironment(table, environment)]);
      expect(values).toMatchObject({ port: 8080, copies: 2 });
    }
  });

  test('is taken from the first source that has it, and named as it is called there', () => {
    const environment = { STEVEDORE_PORT: '2', STEVEDORE_COPIES: '2', STEVEDORE_AGAIN: '1' };
    const sources = [fromFlags({ port: '3' }), fromEnvironment(table, environment)];
    const names: string[] = [];
    const values = parseOptions(table, sources, (_, nameOf) => {
      names.push(nameOf('port'), nameOf('copies'), nameOf('maxAge'));
      return [];
    });
    expect(values).toMatchObject({ port: 3, copies: 2, again: false });
    expect(names).toEqual(['--port', 'STEVEDORE_COPIES', '--max-age']);
  });
});

describe('one error names', () => {
  const message = (check: () => unknown): string => {
    try {
      check();
    } catch (error) {
      expect(error).toBeInstanceOf(OptionError);
      return (error as OptionError).message;
    }
    throw new Error('nothing was refused');
  };

  test('everything that is wrong in all sources', () => {
    const sources = [
      fromFlags({ port: 'x' }),
      fromProgram({ prot: 1, trunkSize: '64', copies: 9 }),
    ];
    const contradicts = () => ['copies needs more'];
    expect(message(() => parseOptions(table, sources, contradicts)).split('\n')).toEqual([
      'prot is no option; did you mean port?',
      'trunkSize: "64" has no unit; write it like 64MiB (B, KiB, MiB, GiB, TiB)',
      'copies: 9 is more than 3',
      '--port: "x" is not a whole number',
    ]);
  });

  test('every contradiction', () => {
    const check = (_: unknown, nameOf: (option: string) => string) => [
      `${nameOf('copies')} is odd`,
      `${nameOf('port')} too`,
    ];
    expect(message(() => parseOptions(table, [fromFlags({})], check))).toBe(
      '--copies is odd\n--port too',
    );
  });
});

test('sizes are written for people, and names that are nearly right are found', () => {
  expect([0, 1023, 1024, 1_500_000].map(formatBytes)).toEqual([
    '0 B',
    '1023 B',
    '1 KiB',
    '1.4 MiB',
  ]);
  expect([nearestName('prot', ['port']), nearestName('xyzzy', ['port'])]).toEqual([
    'port',
    undefined,
  ]);
});
