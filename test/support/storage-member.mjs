// A storage in a process of its own, to be killed: options as JSON in the first argument.
import { startStorage } from '@stevedore/storage';

const storage = await startStorage({
  ...JSON.parse(process.argv[2]),
  onError: (error) =>
    process.stderr.write(
      `${new Date().toISOString()} ${JSON.parse(process.argv[2]).host}: ${error.message}\n`,
    ),
});
process.stdout.write(`ready ${storage.port}\n`);
