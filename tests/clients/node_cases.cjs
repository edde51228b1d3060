// Runs cases one after the other and says of each whether the program behind the library noticed anything.
'use strict';

const { createRequire } = require('node:module');
const path = require('node:path');

const { BACKSTOP_URL: url, BACKSTOP_KEY: key, BACKSTOP_CLIENTS: clients } = process.env;
const model = process.env.BACKSTOP_MODEL || 'some-model';
const library = createRequire(path.join(clients, 'node', 'package.json'));

// Each case is given its provider's id, which is its name, and returns the text.
async function run(cases) {
  for (const [provider, work] of Object.entries(cases)) {
    try {
      const text = await work(provider);
      if (!text) throw new Error('the answer is empty');
      console.log(`ok ${provider}: ${JSON.stringify(text)}`);
    } catch (error) {
      process.exitCode = 1;
      console.log(`FAILED ${provider}: ${error.name}: ${error.message}`);
    }
  }
}

module.exports = { key, library, model, run, url };
