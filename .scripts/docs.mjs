/**
 * Builds the documentation as a static site that opens from disk, docs/dist/site/index.html: the
 * guides and references, the SDK by TypeDoc, and the HTTP API from its OpenAPI description. Fails
 * where a link leads nowhere.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const TYPEDOC = ['-p', 'typedoc@0.28.20', '-p', 'typescript@6.0.3'];
const docs = join(dirname(dirname(fileURLToPath(import.meta.url))), 'docs');

const api = JSON.parse(readFileSync(join(docs, '../gateway/openapi.json'), 'utf8'));
mkdirSync(join(docs, 'dist'), { recursive: true });
writeFileSync(join(docs, 'dist', 'HTTP-API.md'), describe(api));
const { status, stdout, stderr } = spawnSync(
  'npx',
  ['-y', ...TYPEDOC, 'typedoc', '--options', join(docs, 'typedoc.json')],
  { encoding: 'utf8' },
);
process.stdout.write(stdout);
process.stderr.write(stderr);
const isBroken = /anchor does not exist|Failed to resolve link/.test(stdout + stderr);
process.exit(status === 0 && !isBroken ? 0 : 1);

function describe({ info, paths }) {
  const calls = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) =>
      describeCall(`${method.toUpperCase()} ${path}`, operation),
    ),
  );
  return ['---\ntitle: HTTP calls\n---', info.description, ...calls].join('\n\n');
}

function describeCall(name, { summary, parameters = [], requestBody, responses }) {
  const parts = [`## ${name}`, `${summary}.`];
  if (parameters.length > 0) {
    const rows = parameters
      .map(resolved)
      .map(({ name: own, in: where, description = '' }) => row(`\`${own}\``, where, description));
    parts.push([row('parameter', 'in', ''), '| --- | --- | --- |', ...rows].join('\n'));
  }
  if (requestBody) parts.push(`Body: ${typesOf(requestBody.content)}.`);
  const answers = Object.entries(responses).map(([status, response]) => {
    const { description, content } = resolved(response);
    return row(status, content ? typesOf(content) : '', description);
  });
  parts.push([row('status', 'body', ''), '| --- | --- | --- |', ...answers].join('\n'));
  return parts.join('\n\n');
}

/** What a reference within the description leads to. */
function resolved(value) {
  const path = value.$ref?.split('/').slice(1) ?? [];
  return value.$ref ? path.reduce((part, name) => part[name], api) : value;
}

function typesOf(content) {
  return Object.keys(content)
    .map((type) => `\`${type}\``)
    .join(', ');
}

function row(...cells) {
  return `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;
}
