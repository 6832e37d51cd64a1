import { expect, test } from 'vitest';
import { forwardedFor, parseClient } from '../../../gateway/dist/http/addresses.js';
import { isOwnPage, Origins, parseHost, parseOrigin } from '../../../gateway/dist/http/origins.js';

/** Hosts, origins and addresses that are equal have equal texts. */

test.each([
  ['https://app.example', 'https://app.example'],
  ['HTTPS://App.Example:443/', 'https://app.example'],
  ['http://app.example:80', 'http://app.example'],
  ['http://app.example:443', 'http://app.example:443'],
  ['http://[2001:DB8:0::1]:8080', 'http://[2001:db8::1]:8080'],
  ['https://bücher.example', 'https://xn--bcher-kva.example'],
  ['capacitor://localhost', 'capacitor://localhost'],
  ['tauri://localhost', 'tauri://localhost'],
  ['app://obsidian.md', 'app://obsidian.md'],
  ['chrome-extension://dhdgffkkebhmkfjojejmpbldmpobfkfo', undefined],
  ['moz-extension://8c5e1a3e-3f0f-4a43-9d0e-0b7f3c1c2d1e', undefined],
])('%s is an origin', (text, expected = text) => {
  expect(parseOrigin(text)?.text).toBe(expected);
});

test.each([
  ...['', 'null', 'app.example', 'https://', 'file://', 'https://app.example/path', 'mailto:a@b'],
  ...['https://user@app.example', 'https://app.example?a', 'https://a b', 'https://[::1', '*'],
  ...['https://*.app.example'],
])('"%s" is none', (text) => {
  expect(parseOrigin(text)).toBeUndefined();
  expect(new Origins(['https://app.example']).has(text)).toBe(false);
});

test.each([
  ['files.example.com', { name: 'files.example.com', port: '' }],
  ['Files.Example.com.:443', { name: 'files.example.com', port: '443' }],
  ['10.0.0.5:8080', { name: '10.0.0.5', port: '8080' }],
  ['[0:0::1]:8080', { name: '::1', port: '8080' }],
  ['::1', { name: '::1', port: '' }],
  ['a:b:c', undefined],
  ['a b', undefined],
  ['https://a', undefined],
  ['[a]', undefined],
  ['', undefined],
])('the host %s', (text, expected) => {
  expect(parseHost(text)).toEqual(expected);
});

test.each([
  ['https://files.example.com', 'files.example.com', true],
  ['https://files.example.com', 'files.example.com:443', true],
  ['https://files.example.com', 'FILES.example.com.', true],
  ['https://files.example.com:8443', 'files.example.com:8443', true],
  ['http://files.example.com', 'files.example.com:80', true],
  ['http://[::1]:8080', '[0::1]:8080', true],
  ['http://files.example.com', 'files.example.com:443', false],
  ['https://files.example.com:8443', 'files.example.com', false],
  ['https://other.example.com', 'files.example.com', false],
  // The page of an app, which happens to have the name.
  ['capacitor://localhost', 'localhost', false],
  ['https://files.example.com', undefined, false],
])('a page of %s is the own one of %s: %s', (origin, host, expected) => {
  expect(isOwnPage(parseOrigin(origin)!, host)).toBe(expected);
});

test('a client is one, whichever way a proxy writes its address', () => {
  for (const text of [
    '203.0.113.9',
    '203.0.113.9:4711',
    ' ::ffff:203.0.113.9',
    '[::ffff:203.0.113.9]:1',
  ]) {
    expect(parseClient(text)).toBe('203.0.113.9');
  }
  for (const text of [
    '2001:db8::1',
    '[2001:db8::1]',
    '[2001:DB8:0::1]:5',
    '2001:db8:0:0:0:0:0:1',
  ]) {
    expect(parseClient(text)).toBe('2001:db8::1');
  }
  for (const text of ['', 'unknown', '203.0.113', '203.0.113.9:x', '203.0.113.9:1:2', '_x']) {
    expect(parseClient(text)).toBeUndefined();
  }
  expect(forwardedFor('203.0.113.9:1,[2001:db8::1]:5 , what?')).toBe(
    '203.0.113.9, 2001:db8::1, unknown',
  );
});
