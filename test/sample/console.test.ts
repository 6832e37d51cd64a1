import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  guardedGateway,
  listed,
  needsChromium,
  openConsole,
  PATIENT,
  PNG,
  uploadFiles,
} from '../support/console/harness.js';

describe.skipIf(needsChromium.missing)('the console in a browser', () => {
  it('takes files and shows them', async () => {
    const { gateway, key } = await guardedGateway();
    const page = await openConsole(gateway.url, { key, view: 'files' });
    await uploadFiles(page, {
      'red.png': ['image/png', PNG],
      'data.bin': ['application/octet-stream', randomBytes(1000)],
    });
    await expect.poll(() => page.locator('.file').count(), PATIENT).toBe(2);
    await listed(page, 'red.png').click();
    const width = `document.querySelector('img[alt="Preview of red.png"]').naturalWidth`;
    await expect.poll(() => page.evaluate(width), PATIENT).toBe(1);
    expect((await gateway.store.list()).files).toHaveLength(2);
  });
});
