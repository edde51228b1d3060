// The official Anthropic Node SDK, without retries of its own.
'use strict';

const { key, library, model, run, url } = require('./node_cases.cjs');
const { Anthropic } = library('@anthropic-ai/sdk');

const asked = { max_tokens: 64, messages: [{ role: 'user', content: 'Hello' }] };
const own = (provider) => new Anthropic({ baseURL: `${url}/proxy/${provider}`, apiKey: key, maxRetries: 0 });
const unified = () => new Anthropic({ baseURL: url, apiKey: null, authToken: key, maxRetries: 0 });

run({
  'node-messages': async (provider) => {
    const answer = await own(provider).messages.create({ model, ...asked });
    return answer.content[0].text;
  },
  'node-messages-stream': async (provider) => {
    const stream = unified().messages.stream({ model: `${provider}/${model}`, ...asked });
    const answer = await stream.finalMessage();
    if (answer.stop_reason !== 'end_turn') throw new Error(`stop reason ${answer.stop_reason}`);
    return answer.content[0].text;
  },
});
