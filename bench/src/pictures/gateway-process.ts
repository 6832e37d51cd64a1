import { type Gateway, startGateway } from '@stevedore/gateway';
import { familyCpuSeconds } from '../harness/family-cpu.js';
import { serve } from '../harness/serve.js';
import { SIZES } from './plan.js';
import type { ServerHandlers } from './server.js';

/** The gateway as `stevedore gateway --picture-sizes` starts it, with its embedded storage. */

let gateway: Gateway | undefined;

const handlers: ServerHandlers = {
  async start(directory) {
    gateway = await startGateway({
      ...{ directory, port: 0, trackerPort: 0, storagePort: 0 },
      pictureSizes: SIZES.map(({ width, height }) => `${width}x${height}`).join(','),
    });
    return Number(new URL(gateway.url).port);
  },
  familyCpuSeconds: () => familyCpuSeconds(process.pid),
};

serve(handlers, async () => gateway?.close());
