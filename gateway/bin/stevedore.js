#!/usr/bin/env node
// There before the first build, so that an installation can link it.
import '../dist/cli/main.js';
