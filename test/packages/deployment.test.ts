import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { execFileSync } from '../support/child-process.js';
import { Running, run } from '../support/cli/run.js';
import { needsPostgres, PostgresServer } from '../support/map/postgres-server.js';
import { ROOT } from '../support/paths.js';
import { hasCommand } from '../support/requirements.js';
import { soon } from '../support/soon.js';
import { temporaryFolder } from '../support/temporary.js';

/** The deployment files, as far as they go without an engine for containers. */

const FOLDER = join(ROOT, 'examples/deployment');
const textOf = (name: string): string => readFileSync(join(FOLDER, name), 'utf8');

interface Service {
  readonly image: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly depends_on?: readonly string[] | Readonly<Record<string, unknown>>;
  readonly networks?: { readonly default: { readonly ipv4_address: string } };
}

const compose = parse(textOf('compose.yaml'), { merge: true }) as {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
};
const services = Object.entries(compose.services);

test.skipIf(needsPostgres.missing)(
  'the commands of compose.yaml, run as processes, serve one key at both gateways',
  async () => {
    const postgres = await PostgresServer.start();
    // All of 127.0.0.0/8 is this machine: each service gets an address, with the ports of the file.
    const addresses = new Map(services.map(([name], at) => [name, `127.28.0.${10 + at}`]));
    const here = (name: string, text: string): string => {
      let own = text.replace('0.0.0.0', addresses.get(name)!);
      for (const [other, { networks }] of services) {
        const fixed = networks?.default.ipv4_address;
        if (fixed !== undefined) own = own.replaceAll(fixed, addresses.get(other)!);
        own = own.replace(new RegExp(`\\b${other}:(?=\\d)`), `${addresses.get(other)}:`);
      }
      return own;
    };
    const folder = temporaryFolder();
    const ran: string[] = [];
    for (const [name, { command, environment }] of services) {
      if (!command) continue;
      const directory = join(folder, name);
      mkdirSync(directory);
      const args = command.map((word) => here(name, word.replace('/var/lib/stevedore', directory)));
      const env = Object.fromEntries(
        Object.keys(environment ?? {}).map((variable) => [variable, postgres.url]),
      );
      new Running(args, { env });
      ran.push(name);
    }
    expect(ran).toEqual(['tracker', 'storage1', 'storage2', 'gateway1', 'gateway2']);
    const [one, two] = ['gateway1', 'gateway2'].map((name) => `http://${addresses.get(name)}:8080`);
    await soon(async () => {
      for (const url of [one, two]) expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    });
    const body = randomBytes(20_000);
    const stored = await fetch(`${one}/files`, { method: 'POST', body });
    expect(stored.status).toBe(201);
    const { url } = (await stored.json()) as { readonly url: string };
    const read = await fetch(two + url);
    expect(Buffer.from(await read.arrayBuffer()).equals(body)).toBe(true);
  },
);

test('compose.yaml mounts the volumes, waits for the services and passes the proxy that it has', () => {
  for (const [, { volumes = [], depends_on: waits = [] }] of services) {
    for (const volume of volumes) {
      const [source = ''] = volume.split(':');
      if (source.startsWith('.')) expect(readdirSync(FOLDER)).toContain(basename(source));
      else expect(Object.keys(compose.volumes)).toContain(source);
    }
    const names = Array.isArray(waits) ? waits : Object.keys(waits);
    for (const name of names) expect(Object.keys(compose.services)).toContain(name);
  }
  const proxy = compose.services.nginx!.networks!.default.ipv4_address;
  const upstreams = [...textOf('nginx.conf').matchAll(/server (\w+):8080 max_fails=0;/g)].map(
    ([, name]) => name!,
  );
  expect(upstreams).toEqual(['gateway1', 'gateway2']);
  // All that the guide has in front of one gateway, but for what is of its host.
  const guide = readFileSync(join(ROOT, 'docs/guides/deployment.md'), 'utf8');
  const [, site = ''] = /^server \{\n(.+?)^\}$/ms.exec(guide) ?? [];
  const settings = site.split('\n').filter((line) => /^ {2}(?:proxy|client)_/.test(line));
  expect(settings.length).toBeGreaterThan(8);
  for (const line of settings) expect(textOf('nginx.conf')).toContain(line);
  for (const path of ['/peer/', '= /metrics']) {
    expect(guide).toContain(`location ${path} { return 404; }`);
    expect(textOf('nginx.conf')).toMatch(new RegExp(`location ${path} \\{\\s+return 404;`));
  }
  for (const name of upstreams) expect(compose.services[name]!.command).toContain(proxy);
});

test('the Dockerfile copies and starts what there is', () => {
  const text = textOf('Dockerfile');
  const { packageManager, scripts } = JSON.parse(
    readFileSync(join(ROOT, 'package.json'), 'utf8'),
  ) as { readonly packageManager: string; readonly scripts: Readonly<Record<string, string>> };
  for (const [used] of text.matchAll(/pnpm@[\d.]+/g)) expect(used).toBe(packageManager);
  expect(text.match(/pnpm@[\d.]+/g)).toHaveLength(3);
  expect(scripts[/ run (\w+)/.exec(text)![1]!]).toBeDefined();
  const { bin } = JSON.parse(readFileSync(join(ROOT, 'gateway/package.json'), 'utf8')) as {
    readonly bin: Readonly<Record<string, string>>;
  };
  expect(text).toContain(`/opt/stevedore/${bin.stevedore!.replace('./', '')}`);
});

/** True if the tool is there; without it the rest of the test remains. */
function hasTool(command: string, ...args: string[]): boolean {
  const isThere = hasCommand(command, ...args);
  if (!isThere) console.warn(`${command} is not there: the files are checked without it`);
  return isThere;
}

test('the units start commands with options that they have, and systemd accepts them', async () => {
  const hasSystemd = hasTool('systemd-analyze', '--version');
  const folder = temporaryFolder();
  const units = readdirSync(join(FOLDER, 'systemd'));
  expect(units).toHaveLength(3);
  for (const unit of units) {
    const text = textOf(`systemd/${unit}`);
    const [, command = ''] = /^ExecStart=\/usr\/local\/bin\/stevedore (.+)$/m.exec(text) ?? [];
    // An option that is wrong is found before a directory is made.
    const { code, stderr } = await run([...command.split(' '), '--port', 'none']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('port')]);
    for (const section of ['[Unit]', '[Service]', '[Install]']) expect(text).toContain(section);
    if (!hasSystemd) continue;
    const path = join(folder, unit);
    writeFileSync(path, text.replace('/usr/local/bin/stevedore', process.execPath));
    const said = execFileSync('systemd-analyze', ['verify', '--man=no', path], { stdio: 'pipe' });
    expect(said.toString()).toBe('');
  }
});

interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: unknown;
}

interface Named {
  readonly name: string;
}

interface ServiceSpec {
  readonly selector: Readonly<Record<string, string>>;
  readonly ports: readonly { readonly targetPort: string }[];
}

interface SetSpec {
  readonly serviceName: string;
  readonly volumeClaimTemplates: readonly { readonly metadata: Named }[];
  readonly template: {
    readonly metadata: { readonly labels: Readonly<Record<string, string>> };
    readonly spec: {
      readonly containers: readonly Container[];
      readonly volumes: readonly Named[];
    };
  };
}

interface Container {
  readonly args: readonly string[];
  readonly ports: readonly Named[];
  readonly volumeMounts: readonly Named[];
  readonly envFrom: readonly { readonly configMapRef?: Named; readonly secretRef?: Named }[];
}

interface Kustomization {
  readonly namespace: string;
  readonly resources: readonly string[];
  readonly configMapGenerator: readonly Generator[];
  readonly secretGenerator: readonly Generator[];
}

interface Generator {
  readonly name: string;
  readonly literals?: readonly string[];
}

/** What kustomize makes of the manifests, but for names with hashes and the namespace. */
function manifests(): Resource[] {
  const read = (name: string) => textOf(`kubernetes/${name}`);
  const built = parse(read('kustomization.yaml')) as Kustomization;
  const generated = (kind: string, from: readonly Generator[]): Resource[] =>
    from.map(({ name, literals = [] }) => ({
      kind,
      metadata: { name },
      data: Object.fromEntries(literals.map((each) => each.split(/=(.*)/s).slice(0, 2))),
    }));
  return [
    ...built.resources.flatMap((name) =>
      parseAllDocuments(read(name)).map((each) => each.toJS() as Resource),
    ),
    ...generated('ConfigMap', built.configMapGenerator),
    ...generated('Secret', built.secretGenerator),
  ];
}

test('the manifests fit together, and kustomize builds them', async () => {
  const resources = manifests();
  if (hasTool('kubectl', 'version', '--client')) {
    const folder = join(FOLDER, 'kubernetes');
    const built = execFileSync('kubectl', ['kustomize', folder], { encoding: 'utf8' });
    const kinds = parseAllDocuments(built).map((each) => (each.toJS() as Resource).kind);
    expect(kinds.sort()).toEqual(resources.map(({ kind }) => kind).sort());
  }
  const of = (kind: string) => resources.filter((each) => each.kind === kind);
  const set = of('StatefulSet')[0]!.spec as SetSpec;
  const pod = set.template;
  const container = pod.spec.containers[0]!;
  for (const { spec } of of('Service')) {
    const { selector, ports } = spec as ServiceSpec;
    expect(pod.metadata.labels).toMatchObject(selector);
    for (const { targetPort } of ports) expect(container.ports.map(nameOf)).toContain(targetPort);
  }
  const names = resources.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  expect(names).toContain(`Service ${set.serviceName}`);
  for (const { configMapRef, secretRef } of container.envFrom) {
    const name = configMapRef ? `ConfigMap ${configMapRef.name}` : `Secret ${secretRef!.name}`;
    expect(names).toContain(name);
  }
  const claims = set.volumeClaimTemplates.map(({ metadata }) => metadata);
  const volumes = [...pod.spec.volumes, ...claims].map(nameOf);
  expect(volumes.sort()).toEqual(container.volumeMounts.map(nameOf).sort());
  // The command accepts them all, but for a port that is none.
  const variables = of('ConfigMap').flatMap(({ data }) => Object.entries(data ?? {}));
  const { code, stderr } = await run([...container.args, '--port', 'none'], {
    env: Object.fromEntries(variables),
  });
  expect([code, stderr]).toEqual([2, expect.stringContaining('port')]);
  expect(variables.length).toBeGreaterThan(1);
});

function nameOf({ name }: Named): string {
  return name;
}
