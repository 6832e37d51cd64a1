import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { recordSpans } from '@stevedore/client';
import { expect, onTestFinished, test } from 'vitest';
import { openStore } from '../../support/store.js';

/** Spans as the SDK of OpenTelemetry records them. */

test('calls, merges and requests are spans, under the span that is active', async () => {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  onTestFinished(() => context.disable());
  const tracer = provider.getTracer('test');
  const stop = recordSpans(tracer);
  onTestFinished(stop);
  const store = await openStore();
  const request = tracer.startSpan('POST /photos');
  const { key } = await context.with(trace.setSpan(context.active(), request), () =>
    store.put('hello', { name: 'secret name.txt', type: 'text/plain' }),
  );
  request.end();
  await store.flush();
  const fileId = await store.settled(key);
  await (await store.get(fileId)).bytes();
  await store.delete(key);
  await expect(store.get(key)).rejects.toMatchObject({ code: 'not_found' });
  const spans = exporter.getFinishedSpans();
  const named = (name: string) => spans.filter((span) => span.name === name);
  const [put] = named('stevedore.put');
  expect(put?.parentSpanContext?.spanId).toBe(request.spanContext().spanId);
  expect(put?.attributes).toEqual({
    'stevedore.size': 5,
    'stevedore.type': 'text/plain',
    'stevedore.state': 'staged',
  });
  const [merge] = named('stevedore.merge');
  expect(merge?.attributes).toMatchObject({ 'stevedore.kind': 'trunk', 'stevedore.files': 1 });
  expect(named('stevedore.read')[0]?.attributes).toEqual({ 'stevedore.bytes': 5 });
  expect(named('stevedore.fastdfs.request').map(({ attributes }) => attributes)).toContainEqual({
    'stevedore.operation': 'upload',
    'stevedore.address': expect.stringMatching(/^127\./),
  });
  expect(named('stevedore.delete')).toHaveLength(1);
  const [found, missed] = named('stevedore.get');
  expect(found?.status.code).toBe(0);
  expect(missed).toMatchObject({
    attributes: { 'error.type': 'not_found' },
    status: { code: 2, message: 'not_found' },
  });
  // A trace must not be enough to read a file.
  const text = JSON.stringify(
    spans.map(({ name, attributes, status }) => [name, attributes, status]),
  );
  for (const secret of [key, fileId, 'secret']) expect(text).not.toContain(secret);
  stop();
  await store.put('again');
  expect(exporter.getFinishedSpans()).toHaveLength(spans.length);
});
