/** Loaded before all else it makes this the wrong Node for every compiled module. */
process.dlopen = (_module, path) => {
  const error = new Error(
    `The module '${path}'\nwas compiled against a different Node.js version using\n` +
      'NODE_MODULE_VERSION 1. This version of Node.js requires\n' +
      `NODE_MODULE_VERSION ${process.versions.modules}. Please try re-compiling or re-installing\n` +
      'the module (for instance, using `npm rebuild` or `npm install`).',
  );
  throw Object.assign(error, { code: 'ERR_DLOPEN_FAILED' });
};
