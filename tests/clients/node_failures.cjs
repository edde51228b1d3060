// What the official Node SDKs, with their own retries on, make of failures that no key can mend.
'use strict';

const { key, library, model, run, url } = require('./node_cases.cjs');
const { OpenAI } = library('openai');
const { Anthropic } = library('@anthropic-ai/sdk');

const messages = [{ role: 'user', content: 'Hello' }];
const openai = (provider) => new OpenAI({ baseURL: `${url}/proxy/${provider}/v1`, apiKey: key });
const anthropic = (provider) => new Anthropic({ baseURL: `${url}/proxy/${provider}`, apiKey: key });

const chat = (provider) => openai(provider).chat.completions.create({ model, messages });
const message = (provider) => anthropic(provider).messages.create({ model, messages, max_tokens: 64 });

// The error that a call throws, with this status, once the library was told not to try again.
async function stopped(call, status) {
  const error = await call.then(
    () => new Error('the call succeeded'),
    (error) => error,
  );
  if (error.status !== status) throw error;
  if (error.headers.get('x-should-retry') !== 'false') throw new Error('it may be tried again');
  return `${error.constructor.name} ${error.message}`;
}

// The stream gave text, and then ended with an error and not in peace.
async function broken(stream, pieces) {
  let text = '';
  try {
    for await (const event of await stream) text += pieces(event) ?? '';
  } catch (error) {
    if (!text) throw new Error('the error came before any text');
    return `${text}, then ${error.constructor.name} ${error.message}`;
  }
  throw new Error('the stream ended as if it were whole');
}

run({
  'limited-chat': (provider) => stopped(chat(provider), 429),
  'limited-messages': (provider) => stopped(message(provider), 429),
  'dead-chat': (provider) => stopped(chat(provider), 502),
  'dead-messages': (provider) => stopped(message(provider), 502),
  'overflow-chat': (provider) => stopped(chat(provider), 400),
  'overflow-messages': (provider) => stopped(message(provider), 400),
  'node-cut-chat': (provider) =>
    broken(openai(provider).chat.completions.create({ model, messages, stream: true }), (chunk) =>
      chunk.choices[0]?.delta?.content,
    ),
  'node-cut-responses': (provider) =>
    broken(openai(provider).responses.create({ model, input: 'Hello', stream: true }), (event) => {
      if (event.type === 'response.failed') throw new Error(event.response.error.code);
      return event.type === 'response.output_text.delta' ? event.delta : '';
    }),
  'node-cut-messages': (provider) =>
    broken(anthropic(provider).messages.create({ model, messages, max_tokens: 64, stream: true }), (event) =>
      event.type === 'content_block_delta' ? event.delta.text : '',
    ),
});
